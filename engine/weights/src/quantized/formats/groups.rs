//! The groups of columns that share scales.

use wisp_types::encoding::BLOCK;

use crate::{
    error::WeightError,
    quantized::{matrix::ColumnOrder, tensors::Tensors},
    tensor::{StoredEncoding, TensorInfo},
};

/// The columns of a group, where `groups` share `cols` equally.
pub(super) fn group_size(
    tensors: &Tensors<'_>,
    cols: u64,
    groups: u64,
) -> Result<u64, WeightError> {
    match groups > 0 && cols.is_multiple_of(groups) {
        true => Ok(cols / groups),
        false => Err(tensors.error(format!("its {cols} columns have {groups} groups"))),
    }
}

/// Returns the size of groups, and where `g_idx` groups other columns than neighbours, their order.
pub(super) fn groups_of(
    tensors: &Tensors<'_>,
    cols: u64,
    groups: u64,
    g_idx: Option<&TensorInfo>,
) -> Result<(u64, Option<ColumnOrder>), WeightError> {
    let equal = || group_size(tensors, cols, groups);
    let Some(info) = g_idx else {
        return Ok((equal()?, None));
    };
    if info.stored != StoredEncoding::Unsupported("I32") || info.shape != [cols] {
        return Err(tensors.unfit(info, &format!("I32 of shape [{cols}]")));
    }
    let bytes = tensors.bytes(info)?;
    let (values, _) = bytes.as_chunks();
    let values: Vec<i32> = values
        .iter()
        .map(|value| i32::from_le_bytes(*value))
        .collect();
    // compressed-tensors fills unused ones with -1.
    if values.iter().all(|value| *value == -1) {
        return Ok((equal()?, None));
    }
    let is_group = |value: &i32| u64::try_from(*value).is_ok_and(|value| value < groups);
    if let Some(value) = values.iter().find(|value| !is_group(value)) {
        let problem = format!("{} has the group {value} of {groups}", info.name);
        return Err(tensors.error(problem));
    }
    // A tensor of I32 in memory has fewer elements than u32 counts.
    let mut columns: Vec<u32> = (0..values.len() as u32).collect();
    columns.sort_by_key(|column| values[*column as usize]);
    let blocks = columns.chunks(BLOCK).map(|block| {
        let group = |column: &u32| values[*column as usize];
        // They are sorted, so that those between are equal too.
        let (first, last) = (block.first().map(group)?, block.last().map(group)?);
        (first == last).then_some(first as u32)
    });
    let Some(groups) = blocks.collect::<Option<Vec<u32>>>() else {
        let problem = format!(
            "groups of {} have no multiple of {BLOCK} columns",
            info.name
        );
        return Err(tensors.error(problem));
    };
    let is_own = columns.iter().zip(0..).all(|(column, at)| *column == at);
    if is_own && let Ok(group) = equal() {
        let expected = (0..groups.len() as u64).map(|block| block * BLOCK as u64 / group);
        if groups
            .iter()
            .zip(expected)
            .all(|(group, expected)| u64::from(*group) == expected)
        {
            return Ok((group, None));
        }
    }
    let order = ColumnOrder {
        columns: columns.into(),
        groups,
    };
    // The order tells the groups.
    Ok((BLOCK as u64, Some(order)))
}

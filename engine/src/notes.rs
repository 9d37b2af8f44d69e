//! Notes for the user about settings that have no effect.

use wisp_session::{InferenceSession, Model, Precision};

/// Returns a note if the device computes in another precision than the wanted one.
pub(crate) fn precision_of_device(wanted: Precision, session: &InferenceSession) -> Option<String> {
    let (device, used) = (session.device().info(), session.precision());
    (wanted != used).then(|| {
        format!(
            "{} has no kernels of precision {wanted}, which are for GPUs with half precision: products are {used}",
            device.name
        )
    })
}

/// Returns a note if no product of the model is computed in 8 bits, although its session has that precision.
pub(crate) fn precision_of_model(session: &InferenceSession, model: &Model) -> Option<String> {
    let missing = session.precision() == Precision::Int8 && !model.program().has_int8_products();
    missing.then(|| {
        "precision int8 has no effect: it is for quantised weights, such as Q4_0 or Q8_0, and this model has none"
            .to_owned()
    })
}

//! `copy`: copies elements between strided tensors.

use wisp_shaders::params::CopyParams;

use super::args::Args;
use super::error::HostError;
use super::strided::Places;

/// The twin of `copy.wgsl`.
pub(super) fn copy(args: &Args) -> Result<(), HostError> {
    let p: CopyParams = args.params()?;
    let places = Places::new(args, p.rank, &p.dims)?;
    let x: &[u32] = args.read(1, places.end(p.x_offset, &p.x_strides))?;
    let out: &mut [u32] = args.write(2, places.end(p.out_offset, &p.out_strides))?;
    for place in 0..places.len() {
        let value = x[p.x_offset as usize + places.at(place, &p.x_strides)];
        out[p.out_offset as usize + places.at(place, &p.out_strides)] = value;
    }
    Ok(())
}

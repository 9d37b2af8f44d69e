//! Every kernel against its twin on the host.

mod attention;
mod elementwise;
mod matmul;
mod rows;

use wisp_engine::device::host::twin;

#[test]
fn every_op_has_a_twin() {
    for kernel in wisp_shaders::kernels() {
        assert!(twin(kernel.op).is_some(), "{}", kernel.op);
    }
}

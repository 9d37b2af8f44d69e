//! Notes for the user about settings that have no effect, and about choices that the user may want to know.

use wisp_pipelines::{LayerEmbeddingsPlacement, ModelLimits};
use wisp_session::{InferenceSession, Model, Precision};

use crate::builder::{LoadProgress, NoteKind};

fn note(kind: NoteKind, text: String) -> LoadProgress {
    LoadProgress::Note { kind, text }
}

/// Returns a note if the device computes in another precision than the wanted one.
pub(crate) fn precision_of_device(
    wanted: Precision,
    session: &InferenceSession,
) -> Option<LoadProgress> {
    let (device, used) = (session.device().info(), session.precision());
    (wanted != used).then(|| {
        let text = format!(
            "{} has no kernels of precision {wanted}, which are for GPUs with half precision: products are {used}",
            device.name
        );
        note(NoteKind::PrecisionUnavailable, text)
    })
}

/// Returns a note if no product of the model is computed in 8 bits, although its session has that precision.
pub(crate) fn precision_of_model(
    session: &InferenceSession,
    model: &Model,
) -> Option<LoadProgress> {
    let missing = session.precision() == Precision::Int8 && !model.program().has_int8_products();
    missing.then(|| {
        let text = "precision int8 has no effect: no weights of this model have an encoding that is multiplied with 8-bit \
                    activations, as Q4_0, Q4_K and Q8_0 are";
        note(NoteKind::PrecisionUnused, text.to_owned())
    })
}

/// Returns a note if a model's embeddings by layer are on the host although nobody asked for it, or if that keeps it from
/// submitting as many decode steps at once as were asked for.
pub(crate) fn layer_embeddings(wanted: &ModelLimits, loaded: &ModelLimits) -> Option<LoadProgress> {
    let on_host = loaded.layer_embeddings == LayerEmbeddingsPlacement::Host;
    let chosen = wanted.layer_embeddings != loaded.layer_embeddings;
    let text = match (on_host, chosen, wanted.max_steps > 1) {
        (true, true, _) => {
            "the embeddings by layer stay on the host, because the model does not fit the device's memory otherwise: \
             every decode step is submitted alone"
                .to_owned()
        }
        (true, false, true) => format!(
            "every decode step is submitted alone, not {} at once: the embeddings by layer are on the host",
            wanted.max_steps
        ),
        _ => return None,
    };
    Some(note(NoteKind::LayerEmbeddings, text))
}

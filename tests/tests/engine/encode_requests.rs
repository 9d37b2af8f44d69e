//! Requests of several callers to an encoder, whose texts share batches.

use wisp_engine::{
    device::Device,
    pipelines::{EncodeOptions, EncodeRequest, ModelFiles, ModelLimits, TextEncoder},
    session::InferenceSession,
};
use wisp_tests::encoder;

/// Products of few rows are summed in another order than those of many.
fn assert_close(a: &[Vec<f32>], b: &[Vec<f32>]) {
    let lengths = |rows: &[Vec<f32>]| rows.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(a), lengths(b));
    for (a, b) in a.concat().iter().zip(b.concat()) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn requests_that_share_batches_get_their_own_results() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let files = ModelFiles::open(folder.path()).unwrap();
    let session = InferenceSession::new(Device::host(1).unwrap());
    let limits = ModelLimits {
        max_length: 24,
        max_batch: 3,
        ..ModelLimits::default()
    };
    let mut model = TextEncoder::load_blocking(&session, &files, limits).unwrap();
    let texts = ["the cat", "A kitten is sleeping.", "runs"];
    let [a, b, c] = texts.map(|text| model.tokenizer().tokenize(text).unwrap().tokens);
    let options = EncodeOptions::default();
    let requests = [
        EncodeRequest::HiddenStates(vec![a.clone()]),
        // The second text is too long.
        EncodeRequest::Embeddings(vec![a.clone(), vec![1; 25]], options),
        EncodeRequest::Embeddings(vec![b.clone(), c.clone()], options),
        EncodeRequest::HiddenStates(Vec::new()),
        EncodeRequest::HiddenStates(vec![c, a, b]),
    ];
    let mut run = |requests: &[EncodeRequest]| {
        let results = pollster::block_on(model.run_requests(requests)).into_iter();
        let results = results.map(|result| result.map_err(|error| error.to_string()));
        results.collect::<Vec<_>>()
    };
    let together = run(&requests);
    for (request, together) in requests.iter().zip(&together) {
        let alone = run(std::slice::from_ref(request)).remove(0);
        match (together, alone) {
            (Ok(together), Ok(alone)) => assert_close(together, &alone),
            (together, alone) => assert_eq!(*together, alone),
        }
    }
    let counts = together
        .iter()
        .map(|result| result.as_ref().map(Vec::len).ok());
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [Some(1), None, Some(2), Some(0), Some(3)]
    );
}

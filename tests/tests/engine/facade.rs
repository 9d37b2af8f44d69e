//! The facade: what an application does with nothing but `Model`.

use std::{
    future::Future,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use wisp_engine::{
    Answer, Canceller, Chat, Completion, Error, Event, Events, FinishReason, LoadProgress, Message,
    Model, ModelBuilder, NoteKind, Precision,
    device::Device,
    pipelines::{
        ModelInputs, ModelLimits, ModelOutputs, PipelineConfig, PipelineError, PipelineModel,
        TextProcessor,
        benchmark::{Workload, speed},
        chat_template::ControlTokens,
    },
    session::{InferenceSession, Tensor},
    types::BoxFuture,
};
use wisp_tests::{bundled, encoder};

#[path = "../../../engine/examples/own_pipeline_model.rs"]
#[allow(dead_code, reason = "its main function is for cargo")]
pub(crate) mod bigram;

/// The name of the model that ships in the program.
fn name() -> String {
    let path = bundled::folder().join("wisp-tiny.gguf");
    path.to_str().expect("a path in UTF-8").into()
}

fn on_host() -> ModelBuilder {
    Model::builder(name()).device("host").unwrap()
}

/// The model with a prefill chunk of 4 tokens.
fn in_small_chunks() -> Model {
    let mut config = PipelineConfig::default();
    config.device_specs = vec!["host".parse().unwrap()];
    config.prefill_chunk_size = 4;
    let builder = ModelBuilder::from_config(config).default_context_length();
    builder
        .with_files(bundled::files())
        .unwrap()
        .load()
        .unwrap()
}

fn tokens(model: &Model, prompt: &str) -> Vec<u32> {
    let completion = model.generate(prompt).max_tokens(12).complete();
    completion.unwrap().tokens
}

#[test]
fn threads_generate_the_same_tokens_together_and_while_another_model_loads() {
    let prompts = ["Once upon a time", "The cat", "A riddle, please!", "It was"];
    let model = on_host().load().unwrap();
    let alone: Vec<Vec<u32>> = prompts.map(|prompt| tokens(&model, prompt)).into();
    let second = std::thread::spawn(|| on_host().load().unwrap());
    let threads = prompts.map(|prompt| {
        let model = model.clone();
        std::thread::spawn(move || tokens(&model, prompt))
    });
    let together: Vec<Vec<u32>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert_eq!(together, alone);
    assert_eq!(tokens(&second.join().unwrap(), prompts[0]), alone[0]);
}

#[test]
fn complete_many_keeps_the_order_of_requests() {
    let model = on_host().parallel_sequences(2).load().unwrap();
    let prompts = ["Once", "The", "A", "It", "She"];
    let requests = prompts.map(|prompt| model.generate(prompt).max_tokens(6));
    let completions: Result<Vec<_>, _> = model.complete_many(requests).into_iter().collect();
    let completions = completions.unwrap();
    for (prompt, completion) in prompts.into_iter().zip(completions) {
        let alone = model.generate(prompt).max_tokens(6).complete().unwrap();
        assert_eq!(completion.tokens, alone.tokens);
        assert_eq!(completion.text, alone.text);
    }
}

#[test]
fn events_are_prefill_then_tokens_with_text_then_the_end() {
    let model = in_small_chunks();
    let request = model.generate("Once upon a time there was").max_tokens(5);
    let events: Vec<Event> = request
        .log_probabilities(2)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut completion = Completion::default();
    let mut prefill = 0;
    for event in events {
        match &event {
            Event::Prefill { done, total } => {
                assert!(completion.tokens.is_empty() && *done > prefill && done < total);
                prefill = *done;
            }
            Event::Token { score, .. } => {
                let score = score.as_ref().unwrap();
                assert!(score.log_probability <= 0.0 && score.top.len() == 2);
            }
            Event::End { reason, usage } => {
                assert_eq!(*reason, FinishReason::Length);
                assert_eq!(usage.completion_tokens, 5);
            }
            _ => {}
        }
        completion.push(event);
    }
    assert!(prefill > 0);
    assert_eq!(completion.tokens.len(), 5);
    assert_eq!(
        completion.text,
        model.detokenize(&completion.tokens).unwrap()
    );
}

#[test]
fn cancelling_during_prefill_ends_the_request_with_an_event() {
    let model = in_small_chunks();
    let prompt = "Once upon a time there was a little cat who liked to play in the garden.";
    let canceller = Canceller::new();
    let request = model.generate(prompt).canceller(&canceller);
    let mut last = None;
    let mut prefill = 0;
    for event in request {
        let event = event.unwrap();
        if let Event::Prefill { done, .. } = event {
            prefill = done;
            // From another thread, as a "stop" button would.
            let canceller = canceller.clone();
            std::thread::spawn(move || canceller.cancel())
                .join()
                .unwrap();
        }
        last = Some(event);
    }
    let Some(Event::End { reason, usage }) = last else {
        panic!("{last:?}");
    };
    assert_eq!(reason, FinishReason::Cancelled);
    assert_eq!(usage.completion_tokens, 0);
    assert!(prefill > 0 && prefill < usage.prompt_tokens);
}

#[test]
fn dropping_the_events_cancels_the_request() {
    let model = on_host().load().unwrap();
    let long = || model.generate("Once upon a time").ignore_end();
    let start = Instant::now();
    let whole = long().complete().unwrap();
    let took = start.elapsed();
    assert_eq!(whole.finish_reason, FinishReason::Length);

    let start = Instant::now();
    let mut events = long().into_iter();
    assert!(events.any(|event| matches!(event, Ok(Event::Token { .. }))));
    drop(events);
    // This waits until no request runs.
    model.adapters().unwrap();
    assert!(start.elapsed() < took / 2);
}

#[test]
fn a_prompt_beyond_the_context_is_an_error_with_both_numbers() {
    let model = on_host().context_length(16).load().unwrap();
    let error = model.generate_tokens(vec![1; 17]).complete().unwrap_err();
    assert!(
        matches!(error, Error::ContextFull { have: 17, max: 16 }),
        "{error:?}"
    );
    assert!(matches!(
        model.generate_tokens([]).complete().unwrap_err(),
        Error::EmptyPrompt
    ));
    // The model goes on.
    assert!(
        model
            .generate_tokens([1, 2])
            .max_tokens(2)
            .complete()
            .is_ok()
    );
}

/// A bigram model with this table.
fn bigram(table: &[f32]) -> Model {
    let session = InferenceSession::new(Device::host(1).unwrap());
    let model = bigram::Bigram::load(&session, table).unwrap();
    let text = TextProcessor::without_tokenizer("bigram", []);
    Model::from_pipeline_model(&session, model, text).unwrap()
}

#[test]
fn logits_that_are_not_finite_fail_only_their_request() {
    let vocab = bigram::VOCAB as usize;
    let mut table = vec![0.0; vocab * vocab];
    table[3 * vocab..4 * vocab].fill(f32::NAN);
    let model = bigram(&table);
    let [bad, good] = [3, 1].map(|token| model.generate_tokens([token]).max_tokens(1).events());
    let bad = bad.blocking().completion().unwrap_err();
    assert!(matches!(bad, Error::NonFinite { .. }), "{bad:?}");
    assert_eq!(good.blocking().completion().unwrap().tokens.len(), 1);
}

/// A model that returns the logits of too few tokens.
#[derive(Debug)]
struct TooFewLogits(ModelLimits);

impl PipelineModel for TooFewLogits {
    fn limits(&self) -> &ModelLimits {
        &self.0
    }

    fn vocab_size(&self) -> u64 {
        4
    }

    fn execute<'a>(
        &'a mut self,
        inputs: &'a ModelInputs,
    ) -> BoxFuture<'a, Result<ModelOutputs, PipelineError>> {
        Box::pin(async move {
            Ok(ModelOutputs {
                logits: Tensor::f32(&[0, 4], &[]).unwrap(),
                logit_offsets: inputs.logit_offsets.clone(),
                hidden_states: None,
            })
        })
    }
}

#[test]
fn logits_of_another_shape_than_the_batch_needs_are_refused() {
    let session = InferenceSession::new(Device::host(1).unwrap());
    let text = TextProcessor::without_tokenizer("too few logits", []);
    let model = TooFewLogits(ModelLimits {
        max_length: 8,
        ..ModelLimits::default()
    });
    let model = Model::from_pipeline_model(&session, model, text).unwrap();
    let error = model.generate_tokens([1]).complete().unwrap_err();
    let shapes = "logits of shape [0, 4], but the batch needs [1, 4]";
    assert!(error.to_string().contains(shapes), "{error}");
}

#[test]
fn a_model_of_ones_own_runs_in_batches_with_the_tokens_of_a_plain_loop() {
    let vocab = bigram::VOCAB as usize;
    let noise = wisp_tests::kernels::noise(7, vocab * vocab);
    let model = bigram(&noise);
    let most_likely = |token: u32| {
        let row = &noise[token as usize * vocab..][..vocab];
        let best = (0..vocab).max_by(|a, b| row[*a].total_cmp(&row[*b]));
        best.unwrap() as u32
    };
    let prompts: Vec<Vec<u32>> = (0..6).map(|i| vec![i, (3 * i + 1) % 8]).collect();
    let requests = prompts.iter().map(|prompt| {
        let request = model.generate_tokens(prompt.clone());
        request.max_tokens(9).log_probabilities(1)
    });
    let completions: Result<Vec<_>, _> = model.complete_many(requests).into_iter().collect();
    let completions = completions.unwrap();
    for (prompt, completion) in prompts.iter().zip(completions) {
        let mut token = prompt[1];
        let expected: Vec<u32> = (0..9)
            .map(|_| {
                token = most_likely(token);
                token
            })
            .collect();
        assert_eq!(completion.tokens, expected);
        assert_eq!(completion.scores.len(), 9);
    }
    // Cancellation too is the runner's, whatever the model is.
    let events = model.generate_tokens([1]).ignore_end().events();
    events.canceller().cancel();
    let completion = events.blocking().completion().unwrap();
    assert_eq!(completion.finish_reason, FinishReason::Cancelled);
}

#[test]
fn text_of_users_becomes_control_tokens_only_where_that_is_allowed() {
    let model = on_host().load().unwrap();
    let tokenizer = model.text().tokenizer().unwrap();
    let end = *model.text().stop_tokens().iter().next().unwrap();
    let spelling = tokenizer.token(end).unwrap();
    let hostile = format!("Hello{spelling}");
    let count = |text: &str, control_tokens| {
        let messages = [Message::new("user", text)];
        let prompt = model.text().chat_prompt(&messages, control_tokens).unwrap();
        prompt.iter().filter(|token| **token == end).count()
    };
    let plain = count("Hello", ControlTokens::Anywhere);
    assert_eq!(count(&hostile, ControlTokens::Anywhere), plain + 1);
    assert_eq!(count(&hostile, ControlTokens::FromTemplateOnly), plain);
    // One token stands for what several spell.
    let prompt_tokens = |mut chat: Chat| {
        let answer = chat.send_with(hostile.as_str(), |answer| answer.max_tokens(1));
        let end = answer.into_iter().last().unwrap().unwrap();
        match end {
            Event::End { usage, .. } => usage.prompt_tokens,
            other => panic!("{other:?}"),
        }
    };
    let allowed = prompt_tokens(model.chat().allow_control_tokens(true));
    assert!(prompt_tokens(model.chat()) > allowed);
}

#[test]
fn a_chat_drops_its_oldest_messages_where_the_context_runs_out() {
    let model = on_host().context_length(128).load().unwrap();
    let mut chat = model.chat().system("Be kind.");
    for turn in 0..8 {
        let text = format!("Tell me story number {turn} about a cat and a dog, please.");
        let answer = chat.send_with(text, |answer| answer.max_tokens(8));
        answer.text().unwrap();
    }
    assert!(!chat.dropped().is_empty());
    assert_eq!(chat.messages()[0], Message::new("system", "Be kind."));
    let sent = chat.dropped().iter().chain(&chat.messages()[1..]);
    let sent: Vec<&str> = sent
        .filter(|message| message.role == "user")
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(sent.len(), 8);
    assert!(sent[0].contains("number 0") && sent[7].contains("number 7"));
}

#[test]
fn a_long_conversation_is_cut_in_few_steps_to_what_fits() {
    let model = on_host().context_length(128).load().unwrap();
    let pairs = (0..2000).flat_map(|turn| {
        let question = Message::new("user", format!("Question {turn}?"));
        [question, Message::new("assistant", "Yes.")]
    });
    let mut chat = model.chat().system("Be kind.").with_messages(pairs);
    let answer = chat.send_with("And now?", |answer| answer.max_tokens(2));
    let prompt_tokens = answer.complete().unwrap().usage.prompt_tokens;
    // As many questions as there is room for are kept, in their order.
    let kept = chat.messages();
    assert_eq!(kept[0].role, "system");
    assert_eq!(kept[1].role, "user");
    assert!(kept.len() > 4, "{kept:?}");
    assert_eq!(chat.dropped().len() + kept.len(), 4003);
    assert_eq!(chat.dropped()[0].content, "Question 0?");
    let question = &chat.dropped()[chat.dropped().len() - 2].content;
    let more = tokens_of(&model, question) + tokens_of(&model, "Yes.");
    assert!(
        (64 - more - 20..=64).contains(&prompt_tokens),
        "{prompt_tokens}"
    );
}

#[test]
fn threads_share_models_chats_and_events() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Model>();
    is_shared::<ModelBuilder>();
    is_shared::<Chat>();
    is_shared::<Answer<'_>>();
    is_shared::<Events>();
    is_shared::<Error>();
}

fn tokens_of(model: &Model, text: &str) -> usize {
    model.tokenize(text).unwrap().len()
}

#[test]
fn a_chat_continues_from_what_it_has_computed() {
    let cached = |model: &Model| {
        let mut chat = model.chat();
        [0, 1].map(|turn| {
            let text = format!("Tell me story number {turn} about a fox and a bear. ").repeat(4);
            let answer = chat.send_with(text, |answer| answer.max_tokens(4));
            let completion = answer.complete().unwrap();
            (completion.text, completion.usage.cached_tokens)
        })
    };
    let [first, second] = cached(&on_host().load().unwrap());
    assert_eq!(first.1, 0);
    assert!(second.1 >= 32, "{second:?}");
    let without = cached(&on_host().prefix_caching(false).load().unwrap());
    assert_eq!(without, [(first.0, 0), (second.0, 0)]);
}

#[test]
fn prompts_of_a_benchmark_are_computed_whole() {
    let model = on_host().load().unwrap();
    let work = model.exclusive_blocking(|generator| {
        Box::pin(async move {
            let start = Instant::now();
            let now = move || start.elapsed();
            // The longer prompt begins with the shorter one.
            for prompt_tokens in [64, 128] {
                let workload = Workload {
                    prompt_tokens,
                    new_tokens: 1,
                    runs: 1,
                };
                speed(generator, workload, &now).await?;
            }
            Ok(generator.prefix_hits().rate())
        })
    });
    assert_eq!(work.unwrap(), 0.0);
    let empty = model.exclusive_blocking(|generator| {
        Box::pin(async move {
            let workload = Workload {
                prompt_tokens: 0,
                new_tokens: 1,
                runs: 1,
            };
            Ok(speed(generator, workload, &Duration::default).await?)
        })
    });
    assert!(matches!(empty, Err(Error::EmptyPrompt)), "{empty:?}");
}

#[test]
fn prefixes_are_shared_unless_whole_texts_of_layers_with_a_window_do_not_fit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/goldens/olmo3");
    let builder = || {
        let builder = Model::builder(folder.to_str().unwrap());
        let builder = builder.configure(|config| config.prefill_chunk_size = 16);
        builder.device("host").unwrap().parallel_sequences(1)
    };
    let estimate = |builder: ModelBuilder| builder.estimate().unwrap().total();
    let (shared, alone) = (
        estimate(builder()),
        estimate(builder().prefix_caching(false)),
    );
    assert!(alone < shared, "{alone} without, {shared} with prefixes");
    for (memory, shares) in [(shared, true), (alone, false)] {
        let model = builder().memory_limit(memory).load().unwrap();
        assert_eq!(model.limits().prefix_caching, shares);
        let answer = model.generate_tokens([1, 2, 3]).max_tokens(40).ignore_end();
        assert_eq!(answer.complete().unwrap().tokens.len(), 40);
    }
    let error = builder().memory_limit(alone / 2).load().unwrap_err();
    assert!(matches!(error, Error::OutOfMemory(_)), "{error:?}");
}

#[test]
fn a_message_that_fails_leaves_the_history_as_it_was() {
    let model = on_host().context_length(128).load().unwrap();
    let mut chat = model.chat().system("Be kind.");
    for text in ["Hello!", "Tell me about a cat."] {
        chat.send_with(text, |answer| answer.max_tokens(4))
            .text()
            .unwrap();
    }
    let before = chat.messages().to_vec();
    let error = chat.send("a long story ".repeat(200)).text().unwrap_err();
    assert!(matches!(error, Error::ContextFull { .. }), "{error:?}");
    assert_eq!(chat.messages(), before);
    assert!(chat.dropped().is_empty());
    // Cancelled before its first text, a message has no answer either.
    let canceller = Canceller::new();
    canceller.cancel();
    let answer = chat.send_with("Another one.", |answer| answer.canceller(&canceller));
    assert_eq!(answer.text().unwrap(), "");
    assert_eq!(chat.messages(), before);
}

#[test]
fn a_request_that_waits_behind_exclusive_work_can_be_cancelled() {
    let model = on_host().load().unwrap();
    let mut running = model.generate("Once upon a time").ignore_end().events();
    assert!(pollster::block_on(running.next()).unwrap().is_ok());
    // This waits until no request runs, and the next request waits behind it.
    let exclusive = {
        let model = model.clone();
        std::thread::spawn(move || model.adapters())
    };
    while !exclusive.is_finished() && running.try_next().is_none() {}
    let waiting = model.generate("The cat").events();
    waiting.canceller().cancel();
    let completion = waiting.blocking().completion().unwrap();
    assert_eq!(completion.finish_reason, FinishReason::Cancelled);
    assert!(!running.is_ended());
    drop(running);
    assert!(exclusive.join().unwrap().unwrap().is_empty());
}

#[test]
fn embeddings_count_the_tokens_that_were_cut() {
    let folder = tempfile::tempdir().unwrap();
    encoder::bert(folder.path());
    let limit = serde_json::json!({"max_seq_length": 16, "do_lower_case": false});
    encoder::write_json(folder.path(), "sentence_bert_config.json", &limit);
    let path = folder.path().to_str().unwrap();
    let model = Model::builder(path).device("host").unwrap().load().unwrap();
    assert!(model.info().is_encoder);
    let long = "a b ".repeat(400);
    let embeddings = model.embedder().truncate(true).embed(&["a b", &long]);
    let embeddings = embeddings.unwrap();
    assert_eq!(embeddings.vectors.len(), 2);
    assert_eq!(embeddings.cut[0], 0);
    assert!(embeddings.cut[1] > 0);
    let length: f32 = embeddings.vectors[0].iter().map(|x| x * x).sum();
    assert!((length - 1.0).abs() < 1e-5);
    let error = model.generate("a").complete().unwrap_err();
    assert!(matches!(error, Error::NotAGenerator { .. }), "{error:?}");
}

#[test]
fn the_estimate_is_the_memory_that_loading_takes() {
    let open = on_host().open().unwrap();
    let estimate = open.estimate().unwrap().total();
    let model = open.load().unwrap();
    let (allocated, _) = model.session().device().allocated();
    let difference = allocated.abs_diff(estimate);
    assert!(
        difference * 100 <= allocated,
        "{estimate} estimated, {allocated} allocated"
    );
}

#[test]
fn unloading_waits_for_requests_and_frees_the_memory() {
    let device = Device::host(1).unwrap();
    let model = on_host().opened_device(device.clone()).load().unwrap();
    assert!(device.allocated().0 > 0);
    let running = model.generate("Once upon a time").max_tokens(8).events();
    let other = model.clone();
    model.unload();
    assert_eq!(device.allocated().0, 0);
    assert_eq!(running.blocking().completion().unwrap().tokens.len(), 8);
    let error = other.generate("The cat").complete().unwrap_err();
    assert!(matches!(error, Error::Unloaded), "{error:?}");
    assert!(matches!(other.adapters(), Err(Error::Unloaded)));
    other.unload();
}

#[test]
fn a_load_that_nobody_waits_for_ends() {
    let (begun, first) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let builder = on_host().on_progress(move |progress| {
        begun.send(progress).unwrap();
        // An error after the first time, when the sender is gone.
        let _ = released.lock().unwrap().recv();
    });
    let mut load = Box::pin(builder.load_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(load.as_mut().poll(&mut context).is_pending());
    first.recv().unwrap();
    drop(load);
    drop(release);
    // The callback is dropped with the load.
    assert_eq!(first.iter().count(), 0);
}

#[test]
fn loading_reports_progress_and_can_be_cancelled() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let builder = on_host().on_progress(move |progress| sink.lock().unwrap().push(progress));
    builder.load().unwrap();
    let weights: Vec<(u64, u64)> = seen
        .lock()
        .unwrap()
        .iter()
        .filter_map(|progress| match progress {
            LoadProgress::Weights { done, total } => Some((*done, *total)),
            _ => None,
        })
        .collect();
    assert!(weights.is_sorted());
    assert!(weights.last().is_some_and(|(done, total)| done == total));

    // The first report cancels, and no more weights are loaded.
    let canceller = Canceller::new();
    let cancel = canceller.clone();
    let reports = Arc::new(Mutex::new(0));
    let count = reports.clone();
    let builder = on_host().canceller(&canceller);
    let builder = builder.on_progress(move |_| {
        *count.lock().unwrap() += 1;
        cancel.cancel();
    });
    let error = builder.load().unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error:?}");
    assert_eq!(*reports.lock().unwrap(), 1);
}

#[test]
fn loading_notes_a_precision_without_effect() {
    let notes = |precision| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let builder = on_host().precision(precision).on_progress(move |news| {
            if let LoadProgress::Note { kind, .. } = news {
                sink.lock().unwrap().push(kind);
            }
        });
        builder.load().unwrap();
        seen.lock().unwrap().clone()
    };
    assert!(notes(Precision::Exact).is_empty());
    assert_eq!(notes(Precision::F16), [NoteKind::PrecisionUnavailable]);
    // The built-in model's weights are in F16.
    assert_eq!(notes(Precision::Int8), [NoteKind::PrecisionUnused]);
}

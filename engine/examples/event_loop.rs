//! A program with an event loop that must not block, such as a GUI: loading and generation run in the
//! background, and each turn of the loop handles the events that have arrived. `cargo run -p
//! wisp-engine --example event_loop`

use std::time::Duration;

use wisp_engine::{Canceller, Error, Event, Events, LoadProgress, Model};

/// The state that the window shows.
enum State {
    Loading(std::sync::mpsc::Receiver<Result<Model, Error>>),
    Generating(Events),
    Done,
}

fn main() -> Result<(), Error> {
    // The path is relative to the repository's root.
    let own = "native-demo/model/wisp-tiny.gguf";
    let name = std::env::args().nth(1).unwrap_or_else(|| own.into());
    let cancel_loading = Canceller::new();
    let builder = Model::builder(name)
        .canceller(&cancel_loading)
        .on_progress(|progress| {
            if let LoadProgress::Weights { done, total } = progress {
                eprint!("\rloading {} %", 100 * done / total.max(1));
            }
        });
    let (loaded, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || loaded.send(builder.load()));

    let mut state = State::Loading(receiver);
    let mut turns = 0;
    while !matches!(state, State::Done) {
        // Here a GUI would draw its window and handle clicks; a "stop" button would call `cancel`.
        turns += 1;
        std::thread::sleep(Duration::from_millis(5));
        match &mut state {
            State::Loading(receiver) => {
                if let Ok(model) = receiver.try_recv() {
                    eprintln!();
                    let events = model?.generate("Once upon a time").max_tokens(40).events();
                    state = State::Generating(events);
                }
            }
            State::Generating(events) => {
                while let Some(event) = events.try_next() {
                    match event? {
                        Event::Text(text) => print!("{text}"),
                        Event::End { reason, .. } => println!("\n{reason:?}"),
                        _ => {}
                    }
                }
                if events.is_ended() {
                    state = State::Done;
                }
            }
            State::Done => {}
        }
    }
    eprintln!("{turns} turns of the event loop");
    Ok(())
}

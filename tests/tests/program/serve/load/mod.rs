//! A crowd of clients that stream, go away and send nonsense: each gets what its request gets alone, and nothing is left when
//! all have gone.
//!
//! `tests/scripts/serve-load.sh` runs it with more clients for longer.

mod answers;
mod counters;
mod requests;

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use wisp_tests::{
    bundled, encoder,
    server::{Response, Server},
};

use answers::content_of;
use counters::{Bounds, Counters};
use requests::Request;

/// The time in which everything of a client that went away must be gone.
const CLEANUP: Duration = Duration::from_secs(5);

/// Resident memory may grow by this share and this many bytes from one crowd to a later one of the same kind.
const GROWTH: (f64, f64) = (0.1, 32e6);

/// A request, what it gets alone, and what the metrics count for it.
struct Known {
    request: Request,
    status: u16,
    content: answers::Content,
    cost: Counters,
}

/// What a crowd did.
#[derive(Default)]
struct Tally {
    answered: usize,
    refused: usize,
    cancelled: usize,
    bounds: Bounds,
}

/// How clients behave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// They read every answer to its end.
    Patient,
    /// Some go away in the middle of a request or its answer, and some send what is no valid request.
    Wild,
}

/// A generator of numbers, one for each client.
struct Random(u64);

impl Random {
    /// Returns a number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Returns a number from the environment.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn start() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (bert, adapters) = (folder.path().join("bert"), folder.path().join("adapters"));
    std::fs::create_dir(&bert).expect("a folder");
    encoder::bert(&bert);
    super::adapters::write(&adapters.join("poet"), 1);
    let tiny = bundled::folder().join("wisp-tiny.gguf");
    let [tiny, bert] =
        [("tiny", tiny), ("bert", bert)].map(|(name, path)| format!("{name}={}", path.display()));
    let adapters = adapters.to_str().expect("UTF-8");
    #[rustfmt::skip]
    let server = Server::start(&[
        "--model", &tiny, "--model", &bert, "--allow-adapter-loading", adapters, "--max-queue", "10000",
        "--max-body-bytes", "50000",
    ]);
    let adapter = serde_json::json!({ "lora_name": "poet", "lora_path": "poet" });
    assert_eq!(server.post("/v1/load_lora_adapter", &adapter).status, 200);
    (server, folder)
}

/// Sends a request alone.
fn alone(server: &Server, request: Request) -> Known {
    let before = Counters::read(server);
    let response = Response::read(request.send(server));
    let wait = || !request.is_counted || Counters::read(server).requests() > before.requests();
    server.wait_until("the request is counted", wait);
    let cost = Counters::read(server).since(&before);
    let content = content_of(&response);
    let known = match request.is_valid {
        true => response.status == 200 && content.is_complete,
        false => (400..500).contains(&response.status),
    };
    assert!(known, "{request:?}: {} {}", response.status, response.body);
    Known {
        request,
        status: response.status,
        content,
        cost,
    }
}

/// Sends a request and checks that its answer is the known one.
fn answered(server: &Server, known: &Known, tally: &mut Tally) {
    let response = Response::read(known.request.send(server));
    assert_eq!(
        response.status, known.status,
        "{:?}: {}",
        known.request, response.body
    );
    content_of(&response).assert_same(&known.content, &known.request);
    tally.bounds.add(&known.cost);
    match known.request.is_valid {
        true => tally.answered += 1,
        false => tally.refused += 1,
    }
}

/// Sends a request, or a part of it, and goes away before the whole answer has come.
fn cancelled(server: &Server, known: &Known, random: &mut Random, tally: &mut Tally) {
    tally.cancelled += 1;
    if random.below(8) == 0 {
        let bytes = known.request.bytes(server);
        // The head and a part of the body, which the server counts; a head that is cut off is no request.
        let head = bytes.len() - known.request.body.len();
        let part = head + random.below(known.request.body.len());
        let mut stream = server.connect();
        stream.write_all(&bytes[..part]).expect("a connection");
        return tally.bounds.add_cut_off(&known.cost);
    }
    let mut stream = known.request.send(server);
    let mut part = vec![0; random.below(4000)];
    let _ = stream.read_exact(&mut part);
    tally.bounds.add_cancelled(&known.cost);
}

/// One client: its requests until the time has passed.
fn client(
    server: &Server,
    known: &[Known],
    manner: Manner,
    mut random: Random,
    end: Instant,
) -> Tally {
    let (valid, invalid): (Vec<_>, Vec<_>) = known.iter().partition(|known| known.request.is_valid);
    let mut tally = Tally::default();
    while Instant::now() < end {
        let choice = match manner {
            Manner::Patient => 0,
            Manner::Wild => random.below(100),
        };
        let request = valid[random.below(valid.len())];
        match choice {
            0..60 => answered(server, request, &mut tally),
            60..85 => cancelled(server, request, &mut random, &mut tally),
            _ => answered(server, invalid[random.below(invalid.len())], &mut tally),
        }
    }
    tally
}

/// Runs clients for some time, checks what the metrics count, and returns the resident memory when all have gone.
fn crowd(
    server: &Server,
    known: &[Known],
    manner: Manner,
    clients: usize,
    time: Duration,
    round: usize,
) -> Option<u64> {
    let before = Counters::read(server);
    let (begin, end) = (Instant::now(), Instant::now() + time);
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let begun = (0..clients).map(|number| {
            let random = Random((round * clients + number) as u64);
            scope.spawn(move || client(server, known, manner, random, end))
        });
        let running: Vec<_> = begun.collect();
        let ended = running
            .into_iter()
            .map(|client| client.join().expect("a client without a failure"));
        ended.collect()
    });
    let mut total = Tally::default();
    for tally in tallies {
        total.answered += tally.answered;
        total.refused += tally.refused;
        total.cancelled += tally.cancelled;
        total.bounds.merge(tally.bounds);
    }
    let last = Instant::now();
    let mut counters = Counters::read(server).since(&before);
    while !(counters.is_idle() && total.bounds.has_all(&counters)) {
        let found = last.elapsed();
        assert!(
            found < CLEANUP,
            "not over: {counters:?}, not {:?}",
            total.bounds
        );
        std::thread::sleep(Duration::from_millis(20));
        counters = Counters::read(server).since(&before);
    }
    let memory = server.resident_bytes();
    println!(
        "{clients} clients in {:.1} s: {} answers as alone, {} refusals, {} gone; {} tokens; idle after {:.0} ms with {} MB",
        begin.elapsed().as_secs_f64(),
        total.answered,
        total.refused,
        total.cancelled,
        counters.sum("wisp_generated_tokens_total"),
        last.elapsed().as_secs_f64() * 1e3,
        memory.unwrap_or_default() / 1_000_000,
    );
    total.bounds.check(&counters);
    memory
}

#[test]
fn crowd_gets_what_each_request_gets_alone() {
    let clients = setting("WISP_LOAD_CLIENTS", 16);
    // How often a crowd of wild clients comes.
    let rounds = setting("WISP_LOAD_ROUNDS", 2);
    let time = Duration::from_secs(setting("WISP_LOAD_SECONDS", 2) as u64) / (1 + rounds as u32);
    let (server, _folder) = start();
    let known: Vec<Known> = requests::all()
        .into_iter()
        .map(|request| alone(&server, request))
        .collect();
    crowd(&server, &known, Manner::Patient, clients, time, 0);
    let wild = |round| crowd(&server, &known, Manner::Wild, clients, time, round);
    let memory: Vec<u64> = (1..=rounds).filter_map(wild).collect();
    if let [first, .., last] = memory[..] {
        let bound = first as f64 * (1.0 + GROWTH.0) + GROWTH.1;
        assert!((last as f64) < bound, "memory grows: {memory:?}");
    }
    // The server is as good as new.
    for known in known.iter().step_by(4) {
        answered(&server, known, &mut Tally::default());
    }
}

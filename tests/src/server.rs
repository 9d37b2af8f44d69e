//! Starts `wisp serve` and talks HTTP to it over plain sockets, so that a test decides what is sent and when the
//! connection ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitStatus},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::program::command;

/// The longest time that a test waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `wisp serve`, which is killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address, such as `127.0.0.1:41234`.
    pub address: String,
    /// What the server writes to standard error.
    errors: Option<JoinHandle<String>>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers, whose names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Server {
    /// Starts a server on a free port, and waits until it takes requests.
    #[track_caller]
    pub fn start(flags: &[&str]) -> Server {
        let server = Server::start_loading(flags);
        server.wait_until_ready();
        server
    }

    /// Waits until the models are loaded.
    #[track_caller]
    pub fn wait_until_ready(&self) {
        self.wait_until("it is ready", || self.get("/health").status == 200);
    }

    /// Starts a server on a free port without waiting for its models.
    #[track_caller]
    pub fn start_loading(flags: &[&str]) -> Server {
        Server::start_with(flags, |_| ())
    }

    /// Starts a server as [`Self::start_loading`] does, with a changed environment.
    #[track_caller]
    pub fn start_with(flags: &[&str], configure: impl FnOnce(&mut Command)) -> Server {
        let device = match flags.contains(&"--device") {
            true => &[][..],
            false => &["--device", "host"],
        };
        let mut command = command([&["serve", "--port", "0"], device, flags].concat());
        configure(&mut command);
        let mut child = command.spawn().expect("wisp starts");
        // It is read all the time, so that the server can go on writing.
        let mut errors = child.stderr.take().expect("a pipe");
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let output = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let Some(address) = line.trim().strip_prefix("http://") else {
            panic!("no address, but {line:?}: {}", errors.join().expect("text"));
        };
        Server {
            child,
            address: address.into(),
            errors: Some(errors),
        }
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Connects to the server.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends a request and returns the connection, from which the answer can be read.
    pub fn send(&self, request: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut stream = self.connect();
        let host = format!("Host: {}", self.address);
        let named = |header: &&str| header.to_ascii_lowercase().starts_with("host:");
        let own = (!headers.iter().any(named)).then_some(host.as_str());
        let length = format!("Content-Length: {}", body.len());
        let headers = own.into_iter().chain(headers.iter().copied());
        let lines: Vec<&str> = headers
            .chain([length.as_str(), "Connection: close"])
            .collect();
        let head = format!("{request} HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        // The server may answer and close before it has read all.
        let _ = stream.write_all((head + body).as_bytes());
        stream
    }

    /// Sends a request and waits for the whole answer.
    pub fn request(&self, request: &str, headers: &[&str], body: &str) -> Response {
        Response::read(self.send(request, headers, body))
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Response {
        self.request(&format!("GET {path}"), &[], "")
    }

    /// Posts JSON to a path.
    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.request(&format!("POST {path}"), &[], &body.to_string())
    }

    /// Posts JSON, asserts success and returns the JSON of the answer.
    #[track_caller]
    pub fn json(&self, path: &str, body: &Value) -> Value {
        let response = self.post(path, body);
        assert_eq!(response.status, 200, "{path} {body}: {}", response.body);
        response.json()
    }

    /// Posts JSON and returns the data of the events that the answer consists of, the final `[DONE]` checked and
    /// removed.
    #[track_caller]
    pub fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let response = self.post(path, body);
        assert_eq!(response.status, 200, "{path} {body}: {}", response.body);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        response.events()
    }

    /// Returns the value of a metric, all of whose labels are given; 0 if it has none yet.
    #[track_caller]
    pub fn metric(&self, name: &str) -> f64 {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200);
        let mut lines = response.body.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Returns the resident memory of the server in bytes; `None` where the system has no `/proc`.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes << 10)
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(id, signal).expect("the server runs");
    }

    /// Waits for the end of the server, and returns its status and standard error.
    #[track_caller]
    pub fn wait(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a status") {
                Some(status) => break status,
                None => assert!(start.elapsed() < PATIENCE, "the server does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        (status, self.errors())
    }

    /// Kills the server, and returns what it wrote to standard error.
    pub fn kill(mut self) -> String {
        let _ = self.child.kill();
        self.errors()
    }

    fn errors(&mut self) -> String {
        let errors = self.errors.take().expect("taken once");
        errors.join().expect("text")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Response {
    /// Reads an answer up to the end of the connection.
    #[track_caller]
    pub fn read(mut stream: TcpStream) -> Response {
        let mut bytes = Vec::new();
        // A connection that is reset has delivered what came before.
        let _ = stream.read_to_end(&mut bytes);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut headers);
        let shown = String::from_utf8_lossy(&bytes);
        let end = match head.parse(&bytes) {
            Ok(httparse::Status::Complete(end)) => end,
            other => panic!("no head of a response ({other:?}): {shown:?}"),
        };
        let header = |header: &httparse::Header<'_>| {
            let value = String::from_utf8_lossy(header.value).into_owned();
            (header.name.to_ascii_lowercase(), value)
        };
        let response = Response {
            status: head.code.expect("a status"),
            headers: head.headers.iter().map(header).collect(),
            body: String::new(),
        };
        let body = match response.header("transfer-encoding") {
            Some("chunked") => dechunked(&bytes[end..]),
            _ => bytes[end..].to_vec(),
        };
        Response {
            body: String::from_utf8(body).expect("text"),
            ..response
        }
    }

    /// Returns a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the data of named events, whose names are their types.
    #[track_caller]
    pub fn named_events(&self) -> Vec<Value> {
        let events = self.body.split_terminator("\n\n").map(|event| {
            let (name, data) = event.split_once('\n').expect("a name and data");
            let data = data.strip_prefix("data: ").expect("data");
            let data: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        });
        events.collect()
    }

    /// Returns the data of the events, the final `[DONE]` checked and removed.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let events = self.body.split_terminator("\n\n");
        let data = events.map(|event| event.strip_prefix("data: ").expect("data"));
        let mut data: Vec<&str> = data.collect();
        assert_eq!(data.pop(), Some("[DONE]"), "{}", self.body);
        let parse = |data: &str| serde_json::from_str(data).expect("JSON");
        data.into_iter().map(parse).collect()
    }
}

/// Returns the content of a body in chunks, as much of it as arrived.
fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Ok(httparse::Status::Complete((start, length))) = httparse::parse_chunk_size(bytes) {
        let chunk = &bytes[start..];
        let length = (length as usize).min(chunk.len());
        content.extend_from_slice(&chunk[..length]);
        bytes = chunk.get(length + 2..).unwrap_or_default();
        if length == 0 {
            break;
        }
    }
    content
}

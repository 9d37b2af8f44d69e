//! A hub of our own on loopback: the routes of Hugging Face's that `hf-hub` calls, over real files,
//! with faults on request. It speaks HTTP over plain sockets, because an honest server would not let
//! a test break off in the middle of an answer.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    ops::Range,
    path::Path,
    process::Command,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::program;

/// The commit of every repository.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What paths of another address begin with.
const ELSEWHERE: &str = "/elsewhere";

/// What the hub does wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answers this status, with these headers.
    Status(u16, &'static [(&'static str, &'static str)]),
    /// Hangs up after so many bytes of the body.
    Drop(usize),
    /// Sends the whole body, whatever part was asked for.
    IgnoreRange,
    /// Sends more than the file.
    Extra,
    /// Sends as many bytes as the file has, one of them wrong.
    Wrong,
    /// Sends a kilobyte, then waits so long, and so on.
    Slow(Duration),
    /// Leads to another address, which knows nothing of hashes and commits.
    Elsewhere,
    /// Changes the entries of a list.
    Entries(fn(&mut Value)),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET /org/name/resolve/main/file`.
    pub line: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `Authorization` header.
    pub authorization: Option<String>,
}

#[derive(Default)]
struct State {
    /// Files by repository and path.
    files: BTreeMap<(String, String), Vec<u8>>,
    /// Faults, for requests whose line contains a text, so many times.
    faults: Vec<(String, Fault, usize)>,
    requests: Vec<Request>,
}

/// The server; it serves until the test ends.
pub struct Hub {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    /// Starts a hub with nothing in it.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                // A client that leaves is no fault of the server's.
                std::thread::spawn(move || answer(stream, &state).ok());
            }
        });
        Hub { address, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the state")
    }

    /// Adds a file to a repository.
    pub fn add(&self, repo: &str, path: &str, bytes: impl Into<Vec<u8>>) -> &Hub {
        let key = (repo.to_string(), path.to_string());
        self.state().files.insert(key, bytes.into());
        self
    }

    /// From now on answers requests whose line contains `text` wrongly, `times` times.
    pub fn fault(&self, text: &str, fault: Fault, times: usize) -> &Hub {
        self.state().faults.push((text.into(), fault, times));
        self
    }

    /// Answers rightly again.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// The requests so far whose line contains `text`.
    pub fn requests(&self, text: &str) -> Vec<Request> {
        let state = self.state();
        let about = |request: &&Request| request.line.contains(text);
        state.requests.iter().filter(about).cloned().collect()
    }

    /// The program, with this hub and a cache in `home`.
    pub fn command(&self, home: &Path, args: &[&str]) -> Command {
        let mut command = program::command(args);
        self.lead(&mut command, home);
        command
    }

    /// Leads a program to this hub, with a cache in `home`.
    pub fn lead<'a>(&self, command: &'a mut Command, home: &Path) -> &'a mut Command {
        for setting in ["HF_HUB_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE"] {
            command.env_remove(setting);
        }
        command
            .env("HF_ENDPOINT", &self.address)
            .env("HF_HOME", home)
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(&head).map_err(std::io::Error::other)?;
    let header = |name: &str| {
        let found = parsed
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(found.value).into_owned())
    };
    let (method, path) = (
        parsed.method.unwrap_or_default(),
        parsed.path.unwrap_or_default(),
    );
    let request = Request {
        line: format!("{method} {path}"),
        range: header("range"),
        authorization: header("authorization"),
    };
    let (fault, body) = {
        let mut state = state.lock().expect("no thread panics with the state");
        let body = find(&state.files, path.strip_prefix(ELSEWHERE).unwrap_or(path));
        let about = |(text, _, left): &&mut (String, Fault, usize)| {
            *left > 0 && request.line.contains(text.as_str())
        };
        let fault = state.faults.iter_mut().find(about).map(|(_, fault, left)| {
            *left -= 1;
            fault.clone()
        });
        state.requests.push(request.clone());
        (fault, body)
    };
    let Some(mut body) = body else {
        return respond(&mut stream, 404, &[("X-Error-Code", "EntryNotFound")], b"");
    };
    if let Some(Fault::Status(status, headers)) = &fault {
        return respond(&mut stream, *status, headers, br#"{"error":"as asked"}"#);
    }
    if let Some(Fault::Elsewhere) = fault {
        let there = format!("{ELSEWHERE}{path}");
        return respond(&mut stream, 302, &[("Location", &there)], b"");
    }
    if let Some(Fault::Entries(change)) = fault {
        let mut entries: Vec<Value> = serde_json::from_slice(&body)?;
        entries.iter_mut().for_each(change);
        body = serde_json::to_vec(&entries)?;
    }
    let part = match (&request.range, &fault) {
        (Some(range), None | Some(Fault::Drop(_) | Fault::Slow(_))) => {
            parse_range(range, body.len())
        }
        _ => None,
    };
    let (status, part) = part.map_or((200, 0..body.len()), |part| (206, part));
    let mut sent = body[part].to_vec();
    match fault {
        Some(Fault::Extra) => sent.extend([0; 100]),
        Some(Fault::Wrong) => sent.iter_mut().take(1).for_each(|byte| *byte ^= 1),
        _ => {}
    }
    let etag = match is_large(&body) {
        true => sha256(&body),
        false => git(&body),
    };
    let mut head = format!(
        "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\
         Accept-Ranges: bytes\r\nConnection: close\r\n",
        sent.len()
    );
    if !path.starts_with(ELSEWHERE) {
        head += &format!("ETag: \"{etag}\"\r\nX-Repo-Commit: {COMMIT}\r\n");
    }
    if path.starts_with("/api/") {
        head += "Content-Type: application/json\r\n";
    }
    stream.write_all((head + "\r\n").as_bytes())?;
    if method == "HEAD" {
        return Ok(());
    }
    match fault {
        Some(Fault::Drop(after)) => stream.write_all(&sent[..after.min(sent.len())]),
        Some(Fault::Slow(pause)) => sent.chunks(1024).try_for_each(|chunk| {
            stream.write_all(chunk)?;
            stream.flush()?;
            std::thread::sleep(pause);
            Ok(())
        }),
        _ => stream.write_all(&sent),
    }
}

fn respond(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes())?;
    stream.write_all(body)
}

/// The bytes behind `bytes=start-end`.
fn parse_range(range: &str, len: usize) -> Option<Range<usize>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end): (usize, usize) = (start.parse().ok()?, end.parse().ok()?);
    (start <= end && end < len).then_some(start..end + 1)
}

/// What a path leads to: a repository's description, its list of files, or a file.
fn find(files: &BTreeMap<(String, String), Vec<u8>>, path: &str) -> Option<Vec<u8>> {
    let path = path.split('?').next()?;
    let own = |repo: &str| {
        let own: Vec<_> = files.iter().filter(|((of, _), _)| of == repo).collect();
        (!own.is_empty()).then_some(own)
    };
    let known = |revision: &str| revision == "main" || revision == COMMIT;
    if let Some(rest) = path.strip_prefix("/api/models/") {
        let mut parts = rest.splitn(4, '/');
        let repo = format!("{}/{}", parts.next()?, parts.next()?);
        let list = own(&repo)?;
        return match (parts.next(), parts.next()) {
            (None, _) => Some(info(&repo)),
            (Some("revision"), Some(revision)) if known(revision) => Some(info(&repo)),
            (Some("tree"), Some(revision)) if known(revision) => {
                let entries: Vec<_> = list
                    .iter()
                    .map(|((_, path), bytes)| entry(path, bytes))
                    .collect();
                serde_json::to_vec(&entries).ok()
            }
            _ => None,
        };
    }
    let (repo, rest) = path.strip_prefix('/')?.split_once("/resolve/")?;
    let (revision, file) = rest.split_once('/')?;
    let file = files.get(&(repo.to_string(), file.to_string()));
    file.filter(|_| known(revision)).cloned()
}

/// Where contents are kept beside git: they have a pointer in it.
fn is_large(bytes: &[u8]) -> bool {
    bytes.len() > 10_000
}

/// A file in the list of a repository's.
fn entry(path: &str, bytes: &[u8]) -> Value {
    let mut entry = json!({ "type": "file", "oid": git(bytes), "size": bytes.len(), "path": path });
    if is_large(bytes) {
        let (oid, size) = (sha256(bytes), bytes.len());
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n");
        entry["oid"] = git(pointer.as_bytes()).into();
        entry["lfs"] = json!({ "oid": oid, "size": size, "pointerSize": pointer.len() });
    }
    entry
}

/// What large contents are called.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// What git calls a content.
pub fn git(bytes: &[u8]) -> String {
    let head = format!("blob {}\0", bytes.len());
    hex(&Sha1::new_with_prefix(head).chain_update(bytes).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn info(repo: &str) -> Vec<u8> {
    let info = json!({ "_id": "1", "id": repo, "sha": COMMIT, "siblings": [] });
    info.to_string().into_bytes()
}

//! A local server with the routes of the Hugging Face Hub that `hf-hub` requests, which serves real files
//! and injects faults.
//!
//! It implements HTTP over plain sockets, because an HTTP library cannot close the connection in the middle
//! of a response.

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
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

/// The prefix of the paths that [`Fault::Redirect`] redirects to.
const REDIRECTED: &str = "/elsewhere";

/// A fault in the response to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Responds with this status and these headers.
    Status(u16, &'static [(&'static str, &'static str)]),
    /// Closes the connection after this many bytes of the body.
    Disconnect(usize),
    /// Sends the whole body although a range was requested.
    IgnoreRange,
    /// Sends more bytes than the file has.
    TrailingBytes,
    /// Sends the right number of bytes, one of them wrong.
    Corrupt,
    /// Sends a kilobyte at a time and waits this long after each.
    Slow(Duration),
    /// Redirects to another address, whose responses have neither hashes nor commits.
    Redirect,
    /// Changes each entry of a list of files.
    Entries(fn(&mut Value)),
    /// Writes whatever the test wants to the connection.
    Raw(Responder),
}

/// Writes the response to a request, given what an honest hub would send as its body.
#[derive(Clone)]
pub struct Responder(Arc<Respond>);

type Respond = dyn Fn(&mut TcpStream, &[u8]) -> std::io::Result<()> + Send + Sync;

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Responder")
    }
}

impl Fault {
    /// Makes a [`Fault::Raw`].
    pub fn raw(
        respond: impl Fn(&mut TcpStream, &[u8]) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Fault {
        Fault::Raw(Responder(Arc::new(respond)))
    }

    /// Responds with this head, whose lines end with `\n`, and this body.
    pub fn response(head: impl Into<String>, body: impl Into<Vec<u8>>) -> Fault {
        let head = head.into().trim().replace('\n', "\r\n") + "\r\n\r\n";
        let body = body.into();
        Fault::raw(move |stream, _| {
            stream.write_all(head.as_bytes())?;
            stream.write_all(&body)
        })
    }
}

/// A request that the hub received.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET /org/name/resolve/main/file`.
    pub line: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `Authorization` header.
    pub authorization: Option<String>,
}

/// A fault, and the requests that it applies to.
struct InjectedFault {
    /// Applies to requests whose line contains this.
    pattern: String,
    fault: Fault,
    /// How often it still occurs.
    remaining: usize,
}

/// A file, with what requests would otherwise hash its contents for, each time.
struct StoredFile {
    contents: Vec<u8>,
    /// Describes the file in a repository's list.
    entry: Value,
    etag: String,
}

/// The body of an honest hub's response, and its `ETag`.
struct Body {
    bytes: Vec<u8>,
    etag: String,
}

#[derive(Default)]
struct State {
    /// Files by repository and path.
    files: BTreeMap<(String, String), StoredFile>,
    faults: Vec<InjectedFault>,
    requests: Vec<Request>,
}

/// The server, which runs until the test process ends.
pub struct Hub {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    /// Starts a hub without repositories.
    pub fn start() -> Hub {
        Hub::start_at("127.0.0.1")
    }

    /// Starts a hub at another address of this machine.
    pub fn start_at(host: &str) -> Hub {
        let listener = TcpListener::bind((host, 0)).expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                // Errors mean that the client has disconnected.
                std::thread::spawn(move || answer(stream, &state).ok());
            }
        });
        Hub { address, state }
    }

    /// Returns the hub's address, such as `http://127.0.0.1:12345`.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the state")
    }

    /// Adds a file to a repository.
    pub fn add(&self, repo: &str, path: &str, bytes: impl Into<Vec<u8>>) -> &Hub {
        let file = StoredFile::new(path, bytes.into());
        let key = (repo.to_string(), path.to_string());
        self.state().files.insert(key, file);
        self
    }

    /// Makes the next `times` requests whose line contains `pattern` fail.
    pub fn inject(&self, pattern: &str, fault: Fault, times: usize) -> &Hub {
        self.state().faults.push(InjectedFault {
            pattern: pattern.into(),
            fault,
            remaining: times,
        });
        self
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Returns the requests so far whose line contains `pattern`.
    pub fn requests(&self, pattern: &str) -> Vec<Request> {
        let state = self.state();
        let matches = |request: &&Request| request.line.contains(pattern);
        state.requests.iter().filter(matches).cloned().collect()
    }

    /// Returns a command that runs the program with this hub and a cache in `home`.
    pub fn command(&self, home: &Path, args: &[&str]) -> Command {
        let mut command = program::command(args);
        self.configure(&mut command, home);
        command
    }

    /// Sets a command's environment so that it uses this hub and a cache in `home`.
    pub fn configure<'a>(&self, command: &'a mut Command, home: &Path) -> &'a mut Command {
        for setting in ["HF_HUB_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE"] {
            command.env_remove(setting);
        }
        command
            .env("HF_ENDPOINT", &self.address)
            .env("HF_HOME", home)
    }
}

/// Reads one request and responds to it.
fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let (request, method, path) = read_request(&mut stream)?;
    let (fault, body) = {
        let mut state = state.lock().expect("no thread panics with the state");
        let body = find(&state.files, path.strip_prefix(REDIRECTED).unwrap_or(&path));
        let applies = |injected: &&mut InjectedFault| {
            injected.remaining > 0 && request.line.contains(injected.pattern.as_str())
        };
        let fault = state.faults.iter_mut().find(applies).map(|injected| {
            injected.remaining -= 1;
            injected.fault.clone()
        });
        state.requests.push(request.clone());
        (fault, body)
    };
    let Some(Body {
        bytes: mut body,
        etag,
    }) = body
    else {
        return respond(&mut stream, 404, &[("X-Error-Code", "EntryNotFound")], b"");
    };
    match fault {
        Some(Fault::Status(status, headers)) => {
            return respond(&mut stream, status, headers, br#"{"error":"as asked"}"#);
        }
        Some(Fault::Raw(Responder(respond))) => return respond(&mut stream, &body),
        Some(Fault::Redirect) => {
            let target = format!("{REDIRECTED}{path}");
            return respond(&mut stream, 302, &[("Location", &target)], b"");
        }
        Some(Fault::Entries(change)) => {
            let mut entries: Vec<Value> = serde_json::from_slice(&body)?;
            entries.iter_mut().for_each(change);
            body = serde_json::to_vec(&entries)?;
        }
        _ => {}
    }
    let ranged = matches!(fault, None | Some(Fault::Disconnect(_) | Fault::Slow(_)));
    let part = request.range.as_deref().filter(|_| ranged);
    let part = part.and_then(|range| parse_range(range, body.len()));
    let (status, part) = part.map_or((200, 0..body.len()), |part| (206, part));
    let mut sent = body[part].to_vec();
    match fault {
        Some(Fault::TrailingBytes) => sent.extend([0; 100]),
        Some(Fault::Corrupt) => sent.iter_mut().take(1).for_each(|byte| *byte ^= 1),
        _ => {}
    }
    let head = response_head(&path, status, sent.len(), &etag);
    stream.write_all(head.as_bytes())?;
    if method == "HEAD" {
        return Ok(());
    }
    match fault {
        Some(Fault::Disconnect(after)) => stream.write_all(&sent[..after.min(sent.len())]),
        Some(Fault::Slow(pause)) => sent.chunks(1024).try_for_each(|chunk| {
            stream.write_all(chunk)?;
            stream.flush()?;
            std::thread::sleep(pause);
            Ok(())
        }),
        _ => stream.write_all(&sent),
    }
}

/// Reads a request's head, and returns the request, its method and its path.
fn read_request(stream: &mut TcpStream) -> std::io::Result<(Request, String, String)> {
    let mut head = Vec::new();
    let mut lines = std::io::BufReader::new(stream);
    while !head.ends_with(b"\r\n\r\n") {
        if lines.read_until(b'\n', &mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(&head).map_err(std::io::Error::other)?;
    let header = |name: &str| {
        let mut headers = parsed.headers.iter();
        let found = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(found.value).into_owned())
    };
    let method = parsed.method.unwrap_or_default().to_string();
    let path = parsed.path.unwrap_or_default().to_string();
    let request = Request {
        line: format!("{method} {path}"),
        range: header("range"),
        authorization: header("authorization"),
    };
    Ok((request, method, path))
}

/// Formats the head of a successful response with `len` bytes.
fn response_head(path: &str, status: u16, len: usize, etag: &str) -> String {
    let mut head = format!(
        "HTTP/1.1 {status} x\r\nContent-Length: {len}\r\n\
         Accept-Ranges: bytes\r\nConnection: close\r\n"
    );
    if !path.starts_with(REDIRECTED) {
        head += &format!("ETag: \"{etag}\"\r\nX-Repo-Commit: {COMMIT}\r\n");
    }
    if path.starts_with("/api/") {
        head += "Content-Type: application/json\r\n";
    }
    head + "\r\n"
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

/// Parses a header `bytes=start-end`; `None` if the range does not lie within `len` bytes.
fn parse_range(range: &str, len: usize) -> Option<Range<usize>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end): (usize, usize) = (start.parse().ok()?, end.parse().ok()?);
    (start <= end && end < len).then_some(start..end + 1)
}

/// Returns the contents at a path: a repository's description, its list of files, or a file.
fn find(files: &BTreeMap<(String, String), StoredFile>, path: &str) -> Option<Body> {
    let path = path.split('?').next()?;
    let list_files = |repo: &str| {
        let list: Vec<_> = files.iter().filter(|((of, _), _)| of == repo).collect();
        (!list.is_empty()).then_some(list)
    };
    let known = |revision: &str| revision == "main" || revision == COMMIT;
    if let Some(rest) = path.strip_prefix("/api/models/") {
        let mut parts = rest.splitn(4, '/');
        let repo = format!("{}/{}", parts.next()?, parts.next()?);
        let list = list_files(&repo)?;
        return match (parts.next(), parts.next()) {
            (None, _) => Some(Body::small(info(&repo))),
            (Some("revision"), Some(revision)) if known(revision) => Some(Body::small(info(&repo))),
            (Some("tree"), Some(revision)) if known(revision) => {
                let entries: Vec<_> = list.iter().map(|(_, file)| &file.entry).collect();
                serde_json::to_vec(&entries).ok().map(Body::small)
            }
            _ => None,
        };
    }
    let (repo, rest) = path.strip_prefix('/')?.split_once("/resolve/")?;
    let (revision, file) = rest.split_once('/')?;
    let file = files.get(&(repo.to_string(), file.to_string()));
    file.filter(|_| known(revision)).map(|file| Body {
        bytes: file.contents.clone(),
        etag: file.etag.clone(),
    })
}

impl StoredFile {
    /// Hashes a file's contents; the hub stores large ones with git-lfs.
    fn new(path: &str, contents: Vec<u8>) -> StoredFile {
        let size = contents.len();
        let mut entry = json!({ "type": "file", "size": size, "path": path });
        let etag = if size > 10_000 {
            let oid = sha256(&contents);
            let pointer = format!(
                "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"
            );
            entry["oid"] = git_blob_id(pointer.as_bytes()).into();
            entry["lfs"] = json!({ "oid": oid, "size": size, "pointerSize": pointer.len() });
            oid
        } else {
            let oid = git_blob_id(&contents);
            entry["oid"] = oid.as_str().into();
            oid
        };
        StoredFile {
            contents,
            entry,
            etag,
        }
    }
}

impl Body {
    fn small(bytes: Vec<u8>) -> Body {
        let etag = git_blob_id(&bytes);
        Body { bytes, etag }
    }
}

/// Returns the SHA-256 of contents in hexadecimal, which is their name in git-lfs.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the id of contents as a git blob, in hexadecimal.
pub fn git_blob_id(bytes: &[u8]) -> String {
    let head = format!("blob {}\0", bytes.len());
    hex(&Sha1::new_with_prefix(head).chain_update(bytes).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes a repository.
fn info(repo: &str) -> Vec<u8> {
    let info = json!({ "_id": "1", "id": repo, "sha": COMMIT, "siblings": [] });
    info.to_string().into_bytes()
}

//! A server that speaks as much of S3's protocol as backups need, and fails as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How requests fail that are answered next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Status(u16),
    /// The connection ends in the middle of what was asked for.
    Half,
}

#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Of the next requests whose method it is, the first first.
    pub faults: VecDeque<(&'static str, Fault)>,
    /// All further requests of this method are answered so.
    pub always: Option<(&'static str, u16)>,
    pub requests: u64,
    /// Requests that had no signature.
    pub unsigned: u64,
}

pub struct Server {
    pub state: Arc<Mutex<State>>,
}

impl Server {
    /// At the address that the environment names.
    pub fn start() -> Self {
        let address = std::env::var("AWS_ENDPOINT_URL").expect("set by the test that runs the others");
        let listener = TcpListener::bind(address.trim_start_matches("http://")).expect("a free port");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { state }
    }

    pub fn fail(&self, method: &'static str, fault: Fault, times: usize) {
        let mut state = self.state.lock().expect("no panic");
        state.faults.extend(std::iter::repeat_n((method, fault), times));
    }
}

struct Request {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
    is_signed: bool,
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (mut length, mut is_signed) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        is_signed |= header.starts_with("authorization: aws4-hmac-sha256 credential=key/");
        assert!(!header.contains("very secret"), "the secret is sent: {header}");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = (path.to_owned(), query.to_owned());
    Some(Request { method, path, query, body, is_signed })
}

/// Answers one request; `None` ends the connection.
fn serve(mut stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let request = read(stream)?;
    let mut state = state.lock().expect("no panic");
    state.requests += 1;
    state.unsigned += u64::from(!request.is_signed);
    let is_hit = state.faults.front().is_some_and(|(method, _)| *method == request.method);
    let fault = if is_hit { state.faults.pop_front().map(|(_, fault)| fault) } else { None };
    let always = state.always.filter(|(method, _)| *method == request.method).map(|(_, status)| Fault::Status(status));
    let (status, body) = match fault.or(always) {
        Some(Fault::Status(status)) => (status, b"<Error><Code>Told</Code><Message>told to</Message></Error>".to_vec()),
        _ => answer(&mut state, &request),
    };
    drop(state);
    let head = format!(
        "HTTP/1.1 {status} Told\r\nContent-Length: {}\r\nETag: \"1\"\r\n\
         Last-Modified: Thu, 26 Nov 2026 12:00:00 GMT\r\nContent-Type: application/xml\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    if request.method == "HEAD" {
        return Some(());
    }
    if fault == Some(Fault::Half) {
        stream.write_all(&body[..body.len() / 2]).ok()?;
        let _ = stream.shutdown(std::net::Shutdown::Both);
        return None;
    }
    stream.write_all(&body).ok()
}

fn answer(state: &mut State, request: &Request) -> (u16, Vec<u8>) {
    let Request { method, path, query, body, .. } = request;
    let key = path.trim_start_matches("/bucket").trim_start_matches('/').to_owned();
    match method.as_str() {
        "PUT" => {
            state.objects.insert(key, body.clone());
            (200, Vec::new())
        }
        "GET" if query.contains("list-type=2") => (200, list(state, query).into_bytes()),
        "GET" | "HEAD" => match state.objects.get(&key) {
            Some(bytes) => (200, bytes.clone()),
            None => (404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        },
        "POST" => {
            let text = String::from_utf8_lossy(body);
            let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
            let keys: Vec<_> = keys.map(str::to_owned).collect();
            keys.iter().for_each(|key| drop(state.objects.remove(key)));
            (200, b"<DeleteResult></DeleteResult>".to_vec())
        }
        "DELETE" => {
            state.objects.remove(&key);
            (204, Vec::new())
        }
        _ => (405, Vec::new()),
    }
}

fn list(state: &State, query: &str) -> String {
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let prefix = parameter("prefix").unwrap_or("").replace("%2F", "/");
    let after = parameter("continuation-token").unwrap_or("").replace("%2F", "/");
    let mut found: Vec<_> = state.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after).collect();
    // Few at a time, so that there is something to continue.
    let is_truncated = found.len() > 7;
    found.truncate(7);
    let contents: String = found
        .iter()
        .map(|(key, bytes)| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-26T12:00:00.000Z</LastModified>\
                 <ETag>\"1\"</ETag><Size>{}</Size></Contents>",
                bytes.len()
            )
        })
        .collect();
    let next = found.last().map_or("", |(key, _)| key.as_str());
    let next =
        if is_truncated { format!("<NextContinuationToken>{next}</NextContinuationToken>") } else { String::new() };
    format!("<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>{next}{contents}</ListBucketResult>")
}

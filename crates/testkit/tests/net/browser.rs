//! The smallest HTTP client that can still be asked about bytes.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use trunkline_testkit::net::{Identity, TestCa};

pub(crate) const LIMIT: Duration = Duration::from_secs(10);

pub(crate) trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// One connection to a server.
pub(crate) struct Browser {
    stream: BufReader<Box<dyn Duplex>>,
    pub(crate) headers: Vec<(String, String)>,
}

/// A response; the body is what came with a length, and empty for an event stream.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// One server-sent event.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) data: String,
}

impl Event {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e}: {}", self.data))
    }
}

pub(crate) fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// The configuration of a TLS client that trusts one authority.
pub(crate) fn client_config(ca: &TestCa, identity: Option<&Identity>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap())
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
            builder
                .with_client_auth_cert(vec![certificate.unwrap()], key.unwrap())
                .unwrap()
        }
    }
}

/// A TLS connection to `localhost` that trusts one authority.
pub(crate) fn tls(
    address: SocketAddr,
    ca: &TestCa,
    identity: Option<&Identity>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let config = Arc::new(client_config(ca, identity));
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), tcp(address))
}

impl Browser {
    pub(crate) fn new(stream: impl Duplex + 'static) -> Self {
        Self {
            stream: BufReader::new(Box::new(stream)),
            headers: Vec::new(),
        }
    }

    pub(crate) fn to(address: SocketAddr) -> Self {
        Self::new(tcp(address))
    }

    /// Adds a header to every request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let stream = self.stream.get_mut();
        stream
            .write_all(bytes.as_ref())
            .and_then(|()| stream.flush())
            .expect("a server that reads");
    }

    /// Sends a request without waiting for its answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            text.extend([name, ": ", value, "\r\n"]);
        }
        if !body.is_empty() {
            text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
        }
        self.write([text.as_bytes(), b"\r\n", body].concat());
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub(crate) fn fetch(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        self.send(method, path, headers, body);
        self.response().expect("a response")
    }

    /// Reads a response: its whole body if it has a length or is chunked and no event stream.
    pub(crate) fn response(&mut self) -> std::io::Result<Response> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        let mut response = Response {
            status: status.unwrap_or_else(|| panic!("no status: {first}")),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a header");
            response
                .headers
                .push((name.to_lowercase(), value.trim().into()));
        }
        if let Some(length) = response.header("content-length") {
            response.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut response.body)?;
        } else if response.header("transfer-encoding") == Some("chunked")
            && response.header("content-type") != Some("text/event-stream")
        {
            while let Some(chunk) = self.chunk()? {
                response.body.extend(chunk);
            }
        }
        Ok(response)
    }

    /// The next chunk; none at the end of the body.
    pub(crate) fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line()?, 16).map_err(std::io::Error::other)?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok((size > 0).then_some(chunk))
    }

    /// The next event of a stream whose events are a chunk each; none at its end.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Option<Event> {
        let chunk = self.chunk().expect("a chunk")?;
        let mut event = Event::default();
        for line in String::from_utf8(chunk).expect("UTF-8").lines() {
            match line.split_once(':').map(|(k, v)| (k, v.trim_start())) {
                Some(("id", value)) => event.id = Some(value.into()),
                Some(("event", value)) => event.name = Some(value.into()),
                Some(("retry", value)) => event.retry = value.parse().ok(),
                Some(("data", value)) => event.data.push_str(value),
                _ => {}
            }
        }
        Some(event)
    }

    /// Everything until the end of the connection, and whether that end was a reset.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => (bytes, false),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => (bytes, true),
            Err(e) => panic!("{e}"),
        }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().into())
    }
}

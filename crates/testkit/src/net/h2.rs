//! An HTTP/2 front for HTTP/1.1 servers.

use std::{
    future::poll_fn,
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use ::h2::{
    Reason, RecvStream, SendStream,
    server::{Connection, SendResponse},
};
use ::http::{Request, Response};
use bytes::Bytes;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use super::tls::TlsOptions;

/// An HTTP/2 server that forwards each stream to an HTTP/1.1 server on a new connection, which
/// closes when the client resets the stream. Stopped on drop.
#[derive(Debug)]
pub struct Http2Front {
    address: SocketAddr,
    scheme: &'static str,
    counts: Arc<Counts>,
    stop: Mutex<Option<watch::Sender<()>>>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Http2Front {
    /// Creates a front, with TLS (offering `h2`) or with prior knowledge.
    pub fn to(target: SocketAddr, tls: Option<&TlsOptions>) -> Self {
        let counts = Arc::<Counts>::default();
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.clone().alpn(&["h2"]).config()));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (stop, mut stopped) = watch::channel(());
        let (ready, listening) = mpsc::channel();
        let own = Arc::clone(&counts);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build()
                .expect("a runtime");
            // All tasks end with the runtime.
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                    .await
                    .expect("a listener");
                ready
                    .send(listener.local_addr().expect("its address"))
                    .expect("somebody waits");
                tokio::select! {
                    () = accept(&listener, acceptor, target, &own) => {}
                    _ = stopped.changed() => {}
                }
            });
        });
        Self {
            address: listening.recv().expect("a listener"),
            scheme,
            counts,
            stop: Mutex::new(Some(stop)),
        }
    }

    /// Rewrites a URL of the backend to this front.
    pub fn through(&self, url: &str) -> String {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = rest.find('/').map_or("/", |at| &rest[at..]);
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of accepted TCP connections.
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::Acquire)
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Acquire)
    }

    /// Closes the listener and every connection for good.
    pub fn stop(&self) {
        self.stop.lock().unwrap().take();
    }
}

async fn accept(
    listener: &TcpListener,
    acceptor: Option<TlsAcceptor>,
    target: SocketAddr,
    counts: &Arc<Counts>,
) {
    while let Ok((socket, _)) = listener.accept().await {
        counts.connections.fetch_add(1, Ordering::AcqRel);
        socket.set_nodelay(true).ok();
        let (acceptor, counts) = (acceptor.clone(), Arc::clone(counts));
        tokio::spawn(async move {
            match acceptor {
                None => converse(socket, target, &counts).await,
                Some(acceptor) => {
                    if let Ok(socket) = acceptor.accept(socket).await {
                        converse(socket, target, &counts).await;
                    }
                }
            }
        });
    }
}

async fn converse(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    target: SocketAddr,
    counts: &Arc<Counts>,
) {
    let Ok(mut connection): Result<Connection<_, Bytes>, _> = ::h2::server::handshake(socket).await
    else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        counts.requests.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(forward(request, respond, target));
    }
}

async fn forward(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    target: SocketAddr,
) {
    let asked = tokio::select! {
        asked = ask(request, target) => asked,
        _ = poll_fn(|context| respond.poll_reset(context)) => return,
    };
    let Ok(BackendResponse { response, mut body }) = asked else {
        return respond.send_reset(Reason::INTERNAL_ERROR);
    };
    let empty = matches!(body.length, Length::Left(0));
    let Ok(mut stream) = respond.send_response(response, empty) else {
        return;
    };
    if empty {
        return;
    }
    loop {
        let piece = tokio::select! {
            piece = body.piece() => piece,
            _ = poll_fn(|context| stream.poll_reset(context)) => return,
        };
        let sent = match piece {
            Ok(Some(bytes)) => send(&mut stream, bytes).await,
            Ok(None) => return drop(stream.send_data(Bytes::new(), true)),
            Err(_) => return stream.send_reset(Reason::INTERNAL_ERROR),
        };
        if sent.is_none() {
            return;
        }
    }
}

/// Sends bytes within the client's flow control window.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Option<()> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = poll_fn(|context| stream.poll_capacity(context))
            .await?
            .ok()?;
        let now = bytes.split_to(room.min(bytes.len()));
        stream.send_data(now, false).ok()?;
    }
    Some(())
}

struct BackendResponse {
    response: Response<()>,
    body: Body,
}

/// Forwards a request and reads the head of the response.
async fn ask(request: Request<RecvStream>, target: SocketAddr) -> io::Result<BackendResponse> {
    let (parts, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece.map_err(io::Error::other)?;
        stream
            .flow_control()
            .release_capacity(piece.len())
            .map_err(io::Error::other)?;
        body.extend_from_slice(&piece);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut head = format!("{} {path} HTTP/1.1\r\n", parts.method).into_bytes();
    if let Some(authority) = parts.uri.authority() {
        head.extend_from_slice(format!("host: {authority}\r\n").as_bytes());
    }
    for (name, value) in &parts.headers {
        if name != "content-length" {
            head.extend_from_slice(
                &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat(),
            );
        }
    }
    head.extend_from_slice(
        format!(
            "content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        )
        .as_bytes(),
    );
    let mut socket = TcpStream::connect(target).await?;
    socket.write_all(&[head, body].concat()).await?;
    read_head(BufReader::new(socket)).await
}

async fn read_head(mut reader: BufReader<TcpStream>) -> io::Result<BackendResponse> {
    let first = line(&mut reader).await?;
    let status = first.split(' ').nth(1).unwrap_or_default();
    let mut response = Response::builder().status(status);
    let mut length = Length::End;
    loop {
        let header = line(&mut reader).await?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').ok_or(ErrorKind::InvalidData)?;
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", value) => {
                length = Length::Left(value.parse().map_err(io::Error::other)?);
            }
            ("transfer-encoding", _) => length = Length::Chunked,
            ("connection", _) => {}
            (name, value) => response = response.header(name, value),
        }
    }
    if status == "204" {
        length = Length::Left(0);
    }
    Ok(BackendResponse {
        response: response.body(()).map_err(io::Error::other)?,
        body: Body { reader, length },
    })
}

async fn line(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

enum Length {
    Left(usize),
    Chunked,
    End,
}

/// An HTTP/1.1 response body.
struct Body {
    reader: BufReader<TcpStream>,
    length: Length,
}

impl Body {
    /// The next bytes; `None` at the end.
    async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        match &mut self.length {
            Length::Left(0) => Ok(None),
            Length::Left(left) => {
                let mut bytes = vec![0; (*left).min(64 << 10)];
                let count = self.reader.read(&mut bytes).await?;
                if count == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                *left -= count;
                bytes.truncate(count);
                Ok(Some(bytes.into()))
            }
            Length::Chunked => {
                let size = line(&mut self.reader).await?;
                let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
                let mut bytes = vec![0; size];
                self.reader.read_exact(&mut bytes).await?;
                line(&mut self.reader).await?;
                Ok((size > 0).then(|| bytes.into()))
            }
            Length::End => {
                let mut bytes = vec![0; 64 << 10];
                let count = self.reader.read(&mut bytes).await?;
                bytes.truncate(count);
                Ok((count > 0).then(|| bytes.into()))
            }
        }
    }
}

//! TCP connections: all addresses of a name are tried, staggered, and the first to connect wins.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{DialError, authority};

/// Time limit per address.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Head start of an address before the next one (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// TCP keep-alive settings.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(10))
    .with_retries(3);

/// Connects to `host`, an address or a name, at an address that the filter accepts.
pub(super) async fn connect(
    host: &str,
    port: u16,
    filter: Option<&(dyn Fn(IpAddr) -> bool + Send + Sync)>,
) -> Result<TcpStream, DialError> {
    let mut addresses = lookup(host, port).await?;
    if let Some(filter) = filter {
        let first = addresses.first().map(SocketAddr::ip);
        addresses.retain(|address| filter(address.ip()));
        if let (true, Some(address)) = (addresses.is_empty(), first) {
            let server = authority(host, port);
            return Err(DialError::AddressRefused { server, address });
        }
    }
    let mut waiting = alternate(addresses).into_iter();
    let mut trying = FuturesUnordered::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => trying.push(attempt(address)),
            None if trying.is_empty() => return Err(dial_error(&authority(host, port), &failure)),
            None => {}
        }
        tokio::select! {
            biased;
            Some(result) = trying.next() => match result {
                Ok(stream) => return Ok(stream),
                // The last error is the most informative: an unreachable network fails immediately.
                Err(error) => failure = error,
            },
            () = sleep(STAGGER), if waiting.len() > 0 => {}
        }
    }
}

/// Resolves `host`. `localhost` names always mean this host (RFC 6761).
pub(super) async fn lookup(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    if is_localhost(host) {
        let addresses: [IpAddr; 2] = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
        return Ok(addresses.map(|ip| SocketAddr::new(ip, port)).into());
    }
    let found = tokio::net::lookup_host((host, port)).await;
    found
        .map(Iterator::collect)
        .map_err(|error| DialError::Lookup {
            host: host.to_owned(),
            error: resolver_text(&error),
        })
}

/// Whether `host` is a `localhost` name.
pub(super) fn is_localhost(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

async fn attempt(address: SocketAddr) -> io::Result<TcpStream> {
    let connected = timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connected.map_err(|_| io::ErrorKind::TimedOut)??;
    // Both are optional.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
    Ok(stream)
}

fn dial_error(server: &str, error: &io::Error) -> DialError {
    let server = server.to_owned();
    match error.kind() {
        io::ErrorKind::ConnectionRefused => DialError::Refused { server },
        io::ErrorKind::TimedOut => DialError::TimedOut {
            server,
            limit: ADDRESS_TIMEOUT,
        },
        _ => DialError::Connect {
            server,
            error: error.to_string(),
        },
    }
}

/// The system's message, without the function name.
fn resolver_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.strip_prefix("failed to lookup address information: ") {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// Alternates between address families and keeps the resolver's order otherwise: if one family does
/// not work, the other is tried next.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut other = other.into_iter();
    let mut turns = Vec::new();
    for address in one {
        turns.push(address);
        turns.extend(other.next());
    }
    turns.extend(other);
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nodelay_and_keep_alive_are_set() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = connect("127.0.0.1", port, None).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        let idle = socket.tcp_keepalive_time().unwrap();
        let interval = socket.tcp_keepalive_interval().unwrap();
        assert_eq!((idle.as_secs(), interval.as_secs()), (30, 10));
    }

    #[tokio::test]
    async fn an_address_that_the_filter_refuses_is_not_dialled() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let refuse = |_: IpAddr| false;
        let error = connect("localhost", port, Some(&refuse)).await.unwrap_err();
        assert!(matches!(error, DialError::AddressRefused { .. }), "{error}");
        // The addresses that remain are used.
        let only_v4 = |address: IpAddr| address.is_ipv4();
        let stream = connect("localhost", port, Some(&only_v4)).await.unwrap();
        assert!(stream.peer_addr().unwrap().is_ipv4());
    }

    #[test]
    fn address_families_alternate() {
        let cases = [
            ("", ""),
            ("1.1.1.1:1", "1.1.1.1:1"),
            (
                "[::1]:1 [::2]:1 [::3]:1 1.1.1.1:1",
                "[::1]:1 1.1.1.1:1 [::2]:1 [::3]:1",
            ),
            (
                "1.1.1.1:1 [::1]:1 [::2]:1 1.1.1.2:1",
                "1.1.1.1:1 [::1]:1 1.1.1.2:1 [::2]:1",
            ),
        ];
        for (given, expected) in cases {
            let addresses = given.split_whitespace().map(|a| a.parse().unwrap());
            let turns: Vec<_> = alternate(addresses.collect())
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(turns.join(" "), expected);
        }
    }
}

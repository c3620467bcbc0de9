//! Tunnels through a SOCKS 5 proxy (RFC 1928, RFC 1929).

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::proxy::Proxy;
use super::{DialError, Stream, Target};

const VERSION: u8 = 5;
const NO_CREDENTIALS: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_ACCEPTABLE: u8 = 0xff;

/// An error of opening a tunnel, before the proxy is named.
enum SocksError {
    Io(io::Error),
    Credentials,
    Refused(&'static str),
}

impl From<io::Error> for SocksError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Asks `proxy`, the peer of `stream`, to connect it to `target`.
pub(super) async fn open(
    stream: &mut Stream,
    proxy: &Proxy,
    target: &Target,
) -> Result<(), DialError> {
    let result = async {
        authenticate(stream, proxy.credentials.as_ref()).await?;
        connect(stream, target).await
    };
    let (proxy, server) = (proxy.to_string(), target.to_string());
    result.await.map_err(|error| match error {
        SocksError::Io(error) => DialError::ProxyBroken {
            proxy,
            server,
            error: match error.kind() {
                io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
                _ => error.to_string(),
            },
        },
        SocksError::Credentials => DialError::ProxyCredentials { proxy },
        SocksError::Refused(answer) => DialError::ProxyRefused {
            proxy,
            server,
            answer: answer.to_owned(),
        },
    })
}

async fn authenticate(
    stream: &mut Stream,
    credentials: Option<&(String, String)>,
) -> Result<(), SocksError> {
    let offer: &[u8] = match credentials {
        Some(_) => &[VERSION, 2, NO_CREDENTIALS, PASSWORD],
        None => &[VERSION, 1, NO_CREDENTIALS],
    };
    stream.write_all(offer).await?;
    stream.flush().await?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice).await?;
    match (choice, credentials) {
        ([VERSION, NO_CREDENTIALS], _) => Ok(()),
        ([VERSION, PASSWORD], Some((user, password))) => {
            let mut text = vec![1];
            write_short(&mut text, user.as_bytes())?;
            write_short(&mut text, password.as_bytes())?;
            stream.write_all(&text).await?;
            stream.flush().await?;
            let mut verdict = [0; 2];
            stream.read_exact(&mut verdict).await?;
            match verdict[1] {
                0 => Ok(()),
                _ => Err(SocksError::Credentials),
            }
        }
        ([VERSION, PASSWORD | NONE_ACCEPTABLE], _) => Err(SocksError::Credentials),
        _ => Err(not_socks()),
    }
}

async fn connect(stream: &mut Stream, target: &Target) -> Result<(), SocksError> {
    let mut request = vec![VERSION, 1, 0];
    match target.host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
        Err(_) => {
            request.push(3);
            write_short(&mut request, target.host.as_bytes())?;
        }
    }
    request.extend(target.port.to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;

    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [VERSION, reply, _, kind] = head else {
        return Err(not_socks());
    };
    if reply != 0 {
        return Err(SocksError::Refused(reply_text(reply)));
    }
    // The bound address follows and is skipped.
    let address = match kind {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(not_socks()),
    };
    let mut rest = vec![0; address + 2];
    stream.read_exact(&mut rest).await?;
    Ok(())
}

fn write_short(out: &mut Vec<u8>, text: &[u8]) -> Result<(), SocksError> {
    let length = u8::try_from(text.len())
        .map_err(|_| io::Error::other("a name or password is too long for SOCKS"))?;
    out.push(length);
    out.extend_from_slice(text);
    Ok(())
}

fn not_socks() -> SocksError {
    SocksError::Io(io::Error::other("its response is not SOCKS 5"))
}

fn reply_text(reply: u8) -> &'static str {
    match reply {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "timed out on the way",
        7 => "it does not do connections",
        8 => "it does not know this kind of address",
        _ => "unknown failure",
    }
}

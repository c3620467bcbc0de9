//! SOCKS 5 proxies.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use trunkline_transport::net::{Alpn, DialError, Target, TlsFiles};

use crate::echo::{Echo, assert_echo};
use crate::support::dialer;

/// The credentials that a proxy requires, and its reply.
#[derive(Clone, Copy)]
struct Rules {
    password: Option<&'static [u8]>,
    reply: u8,
}

/// A proxy that reports the requested target and connects to this host.
async fn start(rules: Rules) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (told, asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, rules, told.clone()));
        }
    });
    (address, asked)
}

async fn serve(
    mut stream: TcpStream,
    rules: Rules,
    told: mpsc::UnboundedSender<String>,
) -> std::io::Result<()> {
    assert_eq!(stream.read_u8().await?, 5);
    let offers = read_short(&mut stream).await?;
    if let Some(expected) = rules.password {
        if !offers.contains(&2) {
            return stream.write_all(&[5, 0xff]).await;
        }
        stream.write_all(&[5, 2]).await?;
        assert_eq!(stream.read_u8().await?, 1);
        let user = read_short(&mut stream).await?;
        let password = read_short(&mut stream).await?;
        let good = user == b"me" && password == expected;
        stream.write_all(&[1, u8::from(!good)]).await?;
        if !good {
            return Ok(());
        }
    } else {
        stream.write_all(&[5, 0]).await?;
    }
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    assert_eq!(head[..3], [5, 1, 0]);
    let place = match head[3] {
        3 => String::from_utf8(read_short(&mut stream).await?).unwrap(),
        1 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            std::net::Ipv4Addr::from(octets).to_string()
        }
        other => panic!("address type {other}"),
    };
    let port = stream.read_u16().await?;
    told.send(format!("{place}:{port}")).unwrap();
    // A bound address that is a name, which must be skipped.
    stream
        .write_all(&[5, rules.reply, 0, 3, 2, b'm', b'e', 0, 9])
        .await?;
    let mut onward = TcpStream::connect(("127.0.0.1", port)).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut onward).await?;
    Ok(())
}

async fn read_short(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Connects to an echo server through a proxy with `rules` and `credentials`.
async fn through(rules: Rules, credentials: &str) -> Result<(), DialError> {
    let echo = Echo::start("127.0.0.1:0", None).await;
    let (address, mut asked) = start(rules).await;
    let dialer = dialer([("ALL_PROXY", format!("socks5://{credentials}{address}"))]);
    for host in ["server.test", "192.0.2.1"] {
        let target = Target {
            tls: false,
            host: host.to_owned(),
            port: echo.address.port(),
        };
        let reached = dialer
            .dial(&target, &TlsFiles::default(), Alpn::Http1)
            .await;
        let mut reached = reached?;
        assert!(reached.forward.is_none());
        assert_echo(&mut reached.stream).await;
        assert_eq!(asked.recv().await.unwrap(), target.to_string());
    }
    Ok(())
}

#[tokio::test]
async fn names_and_addresses_are_tunnelled() {
    let open = Rules {
        password: None,
        reply: 0,
    };
    through(open, "").await.unwrap();
    through(open, "me:secret@").await.unwrap();
    let guarded = Rules {
        password: Some(b"secret"),
        reply: 0,
    };
    through(guarded, "me:secret@").await.unwrap();
}

#[tokio::test]
async fn a_refusal_gives_the_reason() {
    let guarded = Rules {
        password: Some(b"secret"),
        reply: 0,
    };
    for credentials in ["", "me:wrong@"] {
        let error = through(guarded, credentials).await.unwrap_err();
        assert!(
            matches!(error, DialError::ProxyCredentials { .. }),
            "{error:?}"
        );
    }
    let closed = Rules {
        password: None,
        reply: 2,
    };
    let error = through(closed, "").await.unwrap_err();
    assert!(
        error.to_string().ends_with(": not allowed by its rules"),
        "{error}"
    );
}

//! How servers are reached: proxies and addresses, and the bridge to an embedding process.

pub use crate::connection::{Relay, RelayFuture, RelayStream, RelayedServer};
#[cfg(any(feature = "http", feature = "ws"))]
pub use trunkline_transport::net::{
    Alpn, DialError, Dialed, Dialer, Forward, ReadHalf, Stream, Target, TlsFiles, WriteHalf,
};
pub use trunkline_transport::{SdkTransport, sdk};
pub use trunkline_wire::peer::CallStatus;
pub use trunkline_wire::transport::{
    Incoming, Outgoing, ReceiveHalf, Routing, SendHalf, Transport,
};

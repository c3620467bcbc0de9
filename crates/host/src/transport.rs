//! How servers are reached: proxies and addresses, and the bridge to an embedding process.

#[cfg(any(feature = "http", feature = "ws"))]
pub use trunkline_transport::net::Dialer;
pub use trunkline_transport::sdk;

//! Certificates and proxies for the tests of `net` and `ws`.
#![allow(dead_code, reason = "each of the two uses its own part")]

pub(crate) mod certs;
pub(crate) mod proxy;

use std::time::Duration;

use trunkline_transport::net::Dialer;

/// Time limit for anything on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A dialer with only these environment variables.
pub(crate) fn dialer<V: Into<String>>(vars: impl IntoIterator<Item = (&'static str, V)>) -> Dialer {
    let vars: Vec<_> = vars.into_iter().map(|(k, v)| (k, v.into())).collect();
    Dialer::with_vars(move |name| {
        let found = vars.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    })
}

/// A dialer without environment variables.
pub(crate) fn plain_dialer() -> Dialer {
    dialer::<String>([])
}

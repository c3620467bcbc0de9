//! Certificates and proxies made for one test, used by the tests of `net` and of `ws`.
#![allow(dead_code, reason = "each of the two uses its own part")]

pub(crate) mod certs;
pub(crate) mod proxy;

use std::time::Duration;

use trunkline_transport::net::Dialer;

/// How long anything may take on a busy machine before it counts as hanging.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A dialer that sees these variables and no others.
pub(crate) fn dialer<V: Into<String>>(vars: impl IntoIterator<Item = (&'static str, V)>) -> Dialer {
    let vars: Vec<_> = vars.into_iter().map(|(k, v)| (k, v.into())).collect();
    Dialer::with_vars(move |name| {
        let found = vars.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    })
}

/// A dialer without a single variable.
pub(crate) fn plain_dialer() -> Dialer {
    dialer::<String>([])
}

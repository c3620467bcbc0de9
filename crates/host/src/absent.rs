//! Stands in for the modules of features that are left out of the build.
//!
//! Each stand-in has the names that the rest of the crate uses. Where a configuration needs the
//! feature, it fails with a message that names it; see the table of features in the crate docs.

/// Returns the error for something that needs a feature.
pub(crate) fn message(feature: &str) -> String {
    format!("trunkline was built without the feature `{feature}`")
}

/// Opens no server.
#[cfg(not(feature = "http"))]
pub(crate) mod http {
    use trunkline_config::ServerEntry;

    use crate::connection::{ConnectFailure, FailureKind};

    pub(crate) async fn open<Core, Protocol, Handler, Link>(
        _: &Core,
        _: &ServerEntry,
        _: Protocol,
        _: Handler,
    ) -> Result<Link, ConnectFailure> {
        Err(ConnectFailure::new(FailureKind::MissingFeature("http")))
    }
}

/// Opens no server.
#[cfg(not(feature = "ws"))]
pub(crate) mod ws {
    use trunkline_config::ServerEntry;

    use crate::connection::{ConnectFailure, FailureKind};

    pub(crate) async fn open<Core, Handler, Link>(
        _: &Core,
        _: &ServerEntry,
        _: Handler,
    ) -> Result<Link, ConnectFailure> {
        Err(ConnectFailure::new(FailureKind::MissingFeature("ws")))
    }
}

#[cfg(not(any(feature = "http", feature = "ws")))]
pub(crate) mod network {
    use trunkline_config::ServerEntry;

    #[derive(Clone, Default)]
    pub(crate) struct Network;

    impl Network {
        pub(crate) fn identity(&self, _: &ServerEntry) -> Option<String> {
            Some(String::new())
        }

        pub(crate) fn sign_in_message(&self, _: &ServerEntry) -> Option<String> {
            None
        }

        pub(crate) fn token_failure(&self, _: &ServerEntry) -> Option<String> {
            None
        }

        pub(crate) fn scopes_of(&self, _: &ServerEntry, _: Option<&str>) -> Vec<String> {
            Vec::new()
        }

        pub(crate) async fn is_sign_in_demanded(&self, _: &ServerEntry) -> bool {
            false
        }

        pub(crate) fn has_sign_in_tool(&self, _: &ServerEntry) -> bool {
            false
        }

        pub(crate) fn missing_scopes(&self, _: &ServerEntry) -> Vec<String> {
            Vec::new()
        }

        pub(crate) async fn settle(&self) {}
    }
}

#[cfg(all(feature = "discovery", not(feature = "connectors")))]
pub(crate) mod connectors {
    use trunkline_config::{ConnectorEntry, Diagnostic};

    use crate::network::Network;

    /// There is none: only the feature has a way to add connectors.
    pub(crate) enum ConnectorSource {}

    impl ConnectorSource {
        pub(crate) async fn fetch(&self, _: &Network) -> (Vec<ConnectorEntry>, Vec<Diagnostic>) {
            match *self {}
        }
    }
}

#[cfg(not(feature = "discovery"))]
pub(crate) mod discovery {
    use std::path::PathBuf;
    use std::sync::{Arc, Weak};

    use trunkline_config::{Editor, Server, ServerSet};

    use crate::host::Inner;
    use crate::network::Network;

    #[derive(Default)]
    pub(crate) struct DiscoveryPlan;

    impl DiscoveryPlan {
        pub(crate) fn project_dir(&self) -> Option<PathBuf> {
            None
        }

        pub(crate) fn start(self, _: &Network) -> Option<(Discovery, DiscoveryTask)> {
            None
        }
    }

    /// There is none: only the feature has a way to start it.
    pub(crate) enum Discovery {}

    impl Discovery {
        pub(crate) fn stop(&self) {
            match *self {}
        }

        pub(crate) fn set(&self) -> Arc<ServerSet> {
            match *self {}
        }

        pub(crate) fn policy(&self) -> Arc<ServerSet> {
            match *self {}
        }

        pub(crate) fn list_refused(&self, _: Vec<Server>) {
            match *self {}
        }

        pub(crate) fn editor(&self) -> Editor {
            match *self {}
        }

        pub(crate) async fn reload(&self) {
            match *self {}
        }

        pub(crate) async fn complete(&self) {
            match *self {}
        }
    }

    pub(crate) enum DiscoveryTask {}

    impl DiscoveryTask {
        pub(crate) async fn run(self, _: Weak<Inner>) {
            match self {}
        }
    }
}

/// Images pass as they are if they are short enough, and are left out otherwise.
#[cfg(not(feature = "images"))]
pub(crate) mod image {
    use super::message;

    /// The maximum length in Base64 (RES-2).
    const MAX_BASE64: usize = 5_000_000;

    pub(crate) const MAX_PIXELS: u64 = 0;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct ImageLimits {
        max_base64: usize,
    }

    impl Default for ImageLimits {
        fn default() -> Self {
            Self {
                max_base64: MAX_BASE64,
            }
        }
    }

    #[expect(dead_code, reason = "no image is converted")]
    pub(crate) enum Fitted {
        AsItIs,
        Anew {
            data: Vec<u8>,
            mime: &'static str,
            before: (u32, u32),
            after: (u32, u32),
        },
    }

    /// A format that models take.
    #[derive(Clone, Copy)]
    pub(crate) struct Format;

    pub(crate) fn format(mime: &str) -> Option<Format> {
        let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
        known.contains(&mime).then_some(Format)
    }

    pub(crate) fn fit(
        data: &[u8],
        _: Format,
        limits: &ImageLimits,
        _: &mut u64,
    ) -> Result<Fitted, String> {
        if data.len().div_ceil(3) * 4 <= limits.max_base64 {
            return Ok(Fitted::AsItIs);
        }
        let why = message("images");
        Err(format!("it is too large and cannot be scaled: {why}"))
    }

    pub(crate) fn is_whole(_: &[u8], _: Format, _: &mut u64) -> Result<(), String> {
        Ok(())
    }
}

/// Servers validate arguments themselves.
#[cfg(not(feature = "validation"))]
pub(crate) mod validation {
    use serde_json::Value;
    use trunkline_wire::Json;
    use trunkline_wire::client::Arguments;

    use super::message;

    #[derive(Debug, Default)]
    pub(crate) struct Checks;

    impl Checks {
        pub(crate) fn arguments(&self, _: &Json, _: &Arguments) -> Vec<String> {
            Vec::new()
        }

        pub(crate) fn fits(&self, _: &Json, _: &Json) -> bool {
            true
        }

        pub(crate) fn result(&self, _: &Json, _: &Json) -> Vec<String> {
            Vec::new()
        }
    }

    /// There is none: a policy that restricts arguments refuses the calls (SEC-7).
    pub(crate) enum Fragment {}

    impl Fragment {
        pub(crate) fn new(_: &Value) -> Result<Self, String> {
            Err(message("validation"))
        }

        pub(crate) fn problem(&self, _: &Value, _: &str) -> Option<String> {
            match *self {}
        }
    }

    /// Reads the frontmatter of a skill, which is compared with the server's listing.
    pub(crate) fn yaml_value(_: &str) -> Result<Value, String> {
        Err(message("validation"))
    }
}

//! Options of the commands that sign in.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum XaaCommand {
    /// Set the identity provider
    Setup {
        /// The issuer, an https URL
        #[arg(long, value_name = "URL")]
        issuer: String,

        /// The client id that the identity provider knows trunkline by
        #[arg(long, value_name = "ID")]
        client_id: String,

        /// Prompt for the client secret (or set `MCP_XAA_IDP_CLIENT_SECRET`)
        #[arg(long)]
        client_secret: bool,

        /// The port for the callback of the browser
        #[arg(long, value_name = "PORT")]
        callback_port: Option<u16>,
    },
    /// Sign in at the identity provider
    Login {
        /// Print the URL instead of opening a browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Show the identity provider and who is signed in
    Show,
    /// Sign out, and forget the identity provider and its secret
    Clear,
}

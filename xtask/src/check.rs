//! Placeholder.
#[derive(clap::Args)]
pub struct Options {}
pub fn run(_: &Options) -> anyhow::Result<()> {
    Ok(())
}

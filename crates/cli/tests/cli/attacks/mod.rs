//! Attacks on the built program, one row each: the attack, how it is tried, and what must happen.
//!
//! The table is the index; each row runs as a test of its own in a scratch HOME. The functions behind the rows live in
//! the modules beside this file, by topic. `cargo nextest run -p trunkline-cli attacks` runs them all.

mod approval;
mod commands;

/// Makes a test of every row.
macro_rules! attacks {
    ($($name:ident: $attack:literal, $tried:literal => $outcome:literal, $run:path;)*) => {
        $(
            #[doc = concat!("Attack: ", $attack, ". Tried by: ", $tried, ". Outcome: ", $outcome, ".")]
            #[test]
            fn $name() {
                $run();
            }
        )*
    };
}

attacks! {
    // Approval (CFG-6)
    a_repository_approves_itself: "a repository approves its own server",
        "`.claude/settings.json` in the repository lists the server and enables all"
        => "the server is pending and nothing starts", approval::by_its_own_settings;

    // Commands that write (CFG-11)
    an_import_publishes_a_private_server: "the user's private server with its key gets into a repository",
        "`import -s project` with a key in `~/.cursor/mcp.json`, also by name"
        => "nothing is written and the key is not printed", commands::import_of_a_private_server;
}

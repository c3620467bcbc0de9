//! Attacks on the built program, one row each: the attack, how it is tried, and what must happen.
//!
//! The table is the index; each row runs as a test of its own in a scratch HOME. The functions behind the rows live in
//! the modules beside this file, by topic. `cargo nextest run -p trunkline-cli attacks` runs them all.

mod approval;
mod commands;
mod secrets;
mod text;

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
    // Foreign text (SEC-3)
    a_name_forges_an_entry: "a repository shows another command than the one that runs",
        "a server name with 60 line breaks and a fake entry"
        => "the name stays on one line and nothing starts", text::in_a_server_name;
    an_error_forges_our_lines: "a server prints errors and hints in our name",
        "line breaks, or padding to the next row, in errors, questions and stderr"
        => "no line begins with it", text::in_errors_of_a_server;
    a_description_forges_our_lines: "a server prints errors and hints in our name",
        "line breaks, or padding, in names, titles, descriptions and pin differences"
        => "no line begins with it", text::in_descriptions;
    a_diagnostic_forges_our_lines: "a repository prints errors and hints in our name",
        "line breaks in the keys and values of its `.mcp.json`"
        => "no line begins with it", text::in_diagnostics;
    an_argument_forges_our_lines: "a word of the command line prints errors in our name",
        "line breaks in words that the program repeats"
        => "no line begins with it", text::in_arguments;
    stderr_forges_a_log: "a server writes lines into its log that pass for ours, or for another server's",
        "line breaks, long lines and the log's own heading in stderr, messages and its name"
        => "each line is the server's, and of its kind", text::in_logs;

    // Secrets (SEC-1)
    a_secret_reaches_a_screen: "a secret of an entry is shown, logged or stored",
        "secrets in args, URLs, headers, helpers and defaults, and a server that repeats them"
        => "no command prints one, and no file of ours holds one", secrets::on_every_screen;
    masking_hides_the_cause: "masking hides what one needs",
        "a project path, a word and a port in `env`, repeated in a stack trace"
        => "they stay readable", secrets::not_what_one_needs;
}

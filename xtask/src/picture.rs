//! `cargo xtask picture`: draws the output of `trunkline demo` as the SVG in the README.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sh;

/// The picture, from the root of the workspace.
const PICTURE: &str = "docs/images/demo.svg";

/// The width of the drawn terminal, in columns.
const COLUMNS: usize = 92;

/// The size of a character cell and the margin, in pixels.
const CELL: (usize, usize) = (8, 18);
const MARGIN: usize = 16;

/// Options of `cargo xtask picture`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Runs `trunkline demo` and writes the picture.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut demo = match &options.program {
        Some(program) => Command::new(program),
        None => sh::cargo(&["run", "--quiet", "-p", "trunkline-cli", "--"]),
    };
    demo.arg("demo");
    let text = format!("$ trunkline demo\n{}", output(&mut demo)?);
    fs::write(sh::root().join(PICTURE), svg(&text))
        .with_context(|| format!("could not write {PICTURE}"))?;
    println!("wrote {PICTURE}");
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("could not run the program")?;
    if !output.status.success() {
        bail!("`trunkline demo` failed ({})", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Draws a text as a terminal of [`COLUMNS`] columns.
fn svg(text: &str) -> String {
    let rows: Vec<(&str, String)> = text
        .trim_end()
        .lines()
        .flat_map(|line| wrap(line).into_iter().map(|row| (colour(line), row)))
        .collect();
    let width = COLUMNS * CELL.0 + 2 * MARGIN;
    let height = rows.len() * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n"
    );
    for (index, (colour, row)) in rows.iter().enumerate() {
        let y = MARGIN + (index + 1) * CELL.1 - 5;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\" xml:space=\"preserve\">{}</text>",
            escape(row)
        );
    }
    svg + "</svg>\n"
}

/// Chooses the colour of a line by its beginning.
fn colour(line: &str) -> &'static str {
    let state = |word: &str| line.split_whitespace().nth(1) == Some(word);
    match line.trim_start() {
        text if text.starts_with("$ ") => "#79c0ff",
        text if text.starts_with("== ") => "#f0f6fc",
        text if text.starts_with("error:") || text.starts_with("tool error:") => "#ff7b72",
        text if text.starts_with("hint:") => "#d2a8ff",
        _ if state("connected") => "#7ee787",
        _ if state("failed") => "#ff7b72",
        _ => "#c9d1d9",
    }
}

/// Wraps a line at spaces, with an indentation.
fn wrap(line: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let used = rows.last().map_or(0, |row| row.chars().count());
        let is_blank = rows.last().is_none_or(|row| row.trim().is_empty());
        if used + word.trim_end().chars().count() > COLUMNS && !is_blank {
            rows.push("    ".to_owned());
        }
        if let Some(row) = rows.last_mut() {
            row.push_str(word);
        }
    }
    rows
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_one_element_per_row() {
        let text = format!("$ trunkline demo\n{}\na <b> & c\n", "word ".repeat(30));
        let svg = svg(&text);
        assert_eq!(svg.matches("<text").count(), 4);
        assert!(svg.contains("a &lt;b&gt; &amp; c"), "{svg}");
    }

    #[test]
    fn a_long_line_wraps_with_an_indentation() {
        let rows = wrap(&"word ".repeat(30));
        assert_eq!(rows.len(), 2);
        assert!(rows[1].starts_with("    word"), "{rows:?}");
        assert!(rows.iter().all(|row| row.trim_end().len() <= COLUMNS));
    }
}

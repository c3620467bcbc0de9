//! The entries of a TOML file, with their positions.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fields::{Document, Field, Fields, Problem, RawServer};

/// The entries of the table `section`. The parser limits the nesting depth.
pub(super) fn servers(text: &str, section: &str) -> Result<Document, Problem> {
    let file = DeTable::parse(text).map_err(|error| {
        let at = error.span().map(|span| span.start);
        Problem {
            at,
            server: None,
            message: format!("not valid TOML: {}", error.message()),
        }
    })?;
    let mut document = Document::default();
    let Some(table) = file.into_inner().remove(section) else {
        return Ok(document);
    };
    let at = table.span().start;
    let DeValue::Table(table) = table.into_inner() else {
        return Err(Problem::new(
            at,
            format!("its \"{section}\" is not a table"),
        ));
    };
    for (name, value) in in_order(table) {
        let at = name.span().start;
        let name = name.into_inner().into_owned();
        let DeValue::Table(table) = value.into_inner() else {
            let message = format!("it is not a table; write [{section}.NAME]");
            document
                .problems
                .push(Problem::new(at, message).about(&name));
            continue;
        };
        let fields = in_order(table).into_iter().map(|(name, value)| Field {
            name: name.into_inner().into_owned(),
            at: value.span().start,
            value: plain(value.into_inner()),
        });
        let fields = Fields::new(at, fields.collect());
        document.servers.push(RawServer { name, fields });
    }
    Ok(document)
}

type Pair<'a> = (Spanned<std::borrow::Cow<'a, str>>, Spanned<DeValue<'a>>);

/// The pairs of a table in file order; the table itself sorts them by name.
fn in_order(table: DeTable<'_>) -> Vec<Pair<'_>> {
    let mut pairs: Vec<_> = table.into_iter().collect();
    pairs.sort_by_key(|(name, _)| name.span().start);
    pairs
}

fn plain(value: DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(integer) => {
            match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => number.into(),
                // Too large for any of our fields.
                Err(_) => Value::String(integer.as_str().to_owned()),
            }
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok();
            let number = number.and_then(serde_json::Number::from_f64);
            number.map_or_else(|| Value::String(float.as_str().to_owned()), Value::Number)
        }
        DeValue::Boolean(flag) => flag.into(),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(list) => list
            .into_iter()
            .map(|value| plain(value.into_inner()))
            .collect(),
        DeValue::Table(table) => in_order(table)
            .into_iter()
            .map(|(name, value)| (name.into_inner().into_owned(), plain(value.into_inner())))
            .collect::<Map<_, _>>()
            .into(),
    }
}

//! A TOML text as [`Json`], with the line of every key, so that whatever walks it can say where a
//! problem stands.
//!
//! Nothing here knows what a fixture is. Dates are refused: JSON has none, and a date that is meant
//! as text belongs in quotes.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::decide::json::Json;
use crate::decide::walk::{Problem, index_path, member_path};

/// A TOML document, read.
#[derive(Debug)]
pub(super) struct Document {
    /// The document as an object.
    pub(super) value: Json,
    lines: BTreeMap<String, usize>,
}

/// A problem and the line it stands on, where that is known.
pub(super) type Located = (Option<usize>, Problem);

impl Document {
    /// Reads a text.
    ///
    /// # Errors
    /// Every error of the syntax, repeated keys among them, and every value that JSON lacks.
    pub(super) fn read(text: &str) -> Result<Self, Vec<Located>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let breaks: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        if !errors.is_empty() {
            let locate = |error: &toml::de::Error| {
                let line = error.span().map(|span| line_at(&breaks, &span));
                (line, Problem::new("$", sentence(error.message())))
            };
            let mut located: Vec<Located> = errors.iter().map(locate).collect();
            located.sort_by_key(|(line, _)| *line);
            return Err(located);
        }
        let mut reader = Reader { breaks, lines: BTreeMap::new(), problems: Vec::new() };
        let value = reader.table("$", table.get_ref());
        let Reader { lines, problems, .. } = reader;
        let document = Self { value, lines };
        if problems.is_empty() { Ok(document) } else { Err(document.locate(problems)) }
    }

    /// The line of the value at `path`, or of the innermost value around it.
    fn line_of(&self, path: &str) -> Option<usize> {
        let mut place = path;
        loop {
            if let Some(line) = self.lines.get(place) {
                return Some(*line);
            }
            place = place.get(..place.rfind(['.', '['])?)?;
        }
    }

    /// The problems with their lines.
    pub(super) fn locate(&self, problems: Vec<Problem>) -> Vec<Located> {
        problems.into_iter().map(|problem| (self.line_of(&problem.path), problem)).collect()
    }
}

/// Lines count from 1.
fn line_at(breaks: &[usize], span: &Range<usize>) -> usize {
    breaks.partition_point(|at| *at < span.start) + 1
}

/// The parser's message as ours: lower case, one line.
fn sentence(message: &str) -> String {
    let line = message.lines().collect::<Vec<_>>().join(" ");
    let mut characters = line.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => "not valid TOML".to_owned(),
    }
}

struct Reader {
    breaks: Vec<usize>,
    lines: BTreeMap<String, usize>,
    problems: Vec<Problem>,
}

impl Reader {
    fn table(&mut self, path: &str, table: &DeTable<'_>) -> Json {
        let mut members = Vec::with_capacity(table.len());
        for (key, value) in table {
            let here = member_path(path, key.get_ref());
            let line = line_at(&self.breaks, &key.span());
            self.lines.insert(here.clone(), line);
            members.push((key.get_ref().to_string(), self.value(&here, value)));
        }
        Json::Object(members)
    }

    fn value(&mut self, path: &str, value: &Spanned<DeValue<'_>>) -> Json {
        match value.get_ref() {
            DeValue::String(text) => Json::String(text.to_string()),
            DeValue::Boolean(truth) => Json::Bool(*truth),
            DeValue::Integer(integer) => {
                match i128::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(number) => Json::Number(number.to_string()),
                    Err(_) => self.refuse(path, "a number that is too large"),
                }
            }
            DeValue::Float(float) => {
                let text = float.as_str().trim_start_matches('+');
                match text.parse::<f64>() {
                    Ok(number) if number.is_finite() => Json::Number(text.to_owned()),
                    Ok(_) | Err(_) => self.refuse(path, "JSON has no such number"),
                }
            }
            DeValue::Datetime(_) => {
                self.refuse(path, "JSON has no dates: put it in quotes where it is text")
            }
            DeValue::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let here = index_path(path, index);
                    let line = line_at(&self.breaks, &item.span());
                    self.lines.insert(here.clone(), line);
                    list.push(self.value(&here, item));
                }
                Json::Array(list)
            }
            DeValue::Table(table) => self.table(path, table),
        }
    }

    fn refuse(&mut self, path: &str, text: &str) -> Json {
        self.problems.push(Problem::new(path, text));
        Json::Null
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn problems(text: &str) -> Vec<String> {
        let show = |(line, problem): Located| {
            format!("{}: {}: {}", line.unwrap_or_default(), problem.path, problem.text)
        };
        Document::read(text).unwrap_err().into_iter().map(show).collect()
    }

    #[test]
    fn values_become_json_with_their_lines() {
        let text = "a = 1\nb = [\n  1.50,\n  { c = 0x10, d = +2 },\n]\n[[e]]\nf = true\n\n[[e]]\n\"g h\".i = '''x'''\n";
        let document = Document::read(text).unwrap();
        assert_eq!(
            document.value.canonical(),
            r#"{"a":1,"b":[1.5,{"c":16,"d":2}],"e":[{"f":true},{"g h":{"i":"x"}}]}"#
                .replace("1.5", "15e-1")
        );
        assert_eq!(document.value.get("b").and_then(Json::as_array).map(<[_]>::len), Some(2));
        for (path, line) in [
            ("$.a", 1),
            ("$.b[0]", 3),
            ("$.b[1].c", 4),
            ("$.e[0].f", 7),
            ("$.e[0].missing", 6),
            ("$.e[1]", 9),
            (r#"$.e[1]["g h"].i"#, 10),
        ] {
            assert_eq!(document.line_of(path), Some(line), "{path}");
        }
        assert_eq!(document.line_of("$.nothing"), None);
    }

    #[test]
    fn every_error_of_the_syntax_comes_at_once() {
        let found = problems("a = 1\na = 2\nb = [1,,2]\n[c]\nd = \"x\n");
        assert_eq!(found.len(), 3, "{found:#?}");
        for (problem, line) in found.iter().zip(["2: ", "3: ", "5: "]) {
            assert!(problem.starts_with(line), "{found:#?}");
        }
    }

    #[test]
    fn what_json_lacks_is_refused() {
        assert_eq!(
            problems("a = 2026-01-02\n[b]\nc = inf\n"),
            [
                "1: $.a: JSON has no dates: put it in quotes where it is text",
                "3: $.b.c: JSON has no such number"
            ]
        );
    }
}

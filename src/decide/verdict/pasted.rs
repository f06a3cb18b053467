//! Which parts of a person's message are pasted material: words that the person passed on, not
//! words that the person says.
//!
//! Pasted are lines inside a code fence, lines quoted with `>`, and everything from the header of a
//! forwarded or answered mail to the message's end. A person who writes below a forwarded mail is
//! not heard there: that costs a question, never a wrong approval.

use std::sync::LazyLock;

use regex::Regex;

use crate::decide::text::is_invisible;

/// A line between rules that says where another message begins: `-----Original Message-----`.
static RULED_LINE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-_=*—–]{3,}\s*\p{L}[^\n]{0,100}?[-_=*—–]{3,}$").ok());

/// The line that mail programs put above an answered mail: `On …, … wrote:`.
static ATTRIBUTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^(?:begin forwarded message|anfang der weitergeleiteten nachricht|début du message transféré|inicio del mensaje reenviado|inizio messaggio inoltrato|inizio del messaggio inoltrato|début du message réexpédié|begin doorgestuurd bericht|start på videresendt besked|vidarebefordrat meddelande|początek przekazanej wiadomości|転送されたメッセージ|전달된 메시지|转发的邮件)\s*[:：]?$|^(?:on|am|le|el|il|em|op|den|w dniu|в)\b.{3,160}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|skrev|napisał\(a\)|написал)\b.{0,80}[:：]$|^.{1,100}(?:のメール|さんは書きました|写道|寫道|كتب).{0,40}[:：]$",
    )
    .ok()
});

/// The same in any language: a line that ends in a colon, with a time of day, and a year or an
/// address.
static DATED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^.{0,200}(?:\d{4}.{0,120}\d{1,2}[:.h]\d{2}|\d{1,2}[:.h]\d{2}.{0,120}(?:\d{4}|\S@\S)).{0,120}[:：]$").ok()
});

/// How such a line begins where it is broken over two.
static ATTRIBUTION_START: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^(?:on|am|le|el|il|em|op|den|w dniu|в)\b").ok());

/// A header that names who sent a mail.
static SENDER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[*_]{0,2}(?:from|von|de|da|van|från|fra|od|от|від|kimden|gönderen|nadawca|remetente|remitente|mittente|afzender|expéditeur|absender|avsändare|afsender|lähettäjä|feladó|odesílatel|από|từ|dari|差出人|送信者|送信元|发件人|寄件者|寄件人|보낸 사람|보낸사람|من|المرسل|מאת)[*_]{0,2}\s*[:：]").ok()
});

/// Any line that has a header's form: a name, a colon, a value.
static HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^[*_]{0,2}\p{L}[\p{L}\p{M}' -]{0,40}[*_]{0,2}\s*[:：][*_]{0,2}\s*\S").ok()
});

/// What opens a quotation in HTML or in a forum's notation.
static QUOTATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)<(?:blockquote|pre)\b|\[quote\b").ok());

/// The runs of a message's own lines, each joined by line breaks: what is left once pasted
/// material is taken out. A quote must stand inside one of them. In doubt a line is pasted.
#[must_use]
pub(in crate::decide) fn own_words(message: &str) -> Vec<String> {
    let lines: Vec<&str> = message.split(is_line_break).collect();
    let mut runs = vec![Vec::new()];
    let mut fence: Option<Fence> = None;
    for (index, line) in lines.iter().enumerate() {
        let bare = bare(line);
        if let Some(open) = fence {
            if open.closes_at(bare) {
                fence = None;
            }
            continue;
        }
        if is_quoted(bare) {
            runs.push(Vec::new());
            continue;
        }
        if starts_mail(bare, &lines, index) || is_match(&QUOTATION, bare) {
            break;
        }
        let (own, opened) = before_fence(line);
        if let Some(run) = runs.last_mut()
            && !bare_is_empty(own, line)
        {
            run.push(own);
        }
        if own.len() < line.len() {
            runs.push(Vec::new());
            fence = opened;
        }
    }
    runs.into_iter().filter(|run| !run.is_empty()).map(|run| run.join("\n")).collect()
}

/// Every character that some program takes for a line's end.
fn is_line_break(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\u{000B}' | '\u{000C}' | '\u{0085}' | '\u{2028}' | '\u{2029}'
    )
}

/// A line without white space and invisible characters at its ends.
fn bare(line: &str) -> &str {
    let blank = |character: char| character.is_whitespace() || is_invisible(character);
    line.trim_start_matches(blank).trim_end_matches(blank)
}

/// A line without invisible characters and without a list's marker: what the eye reads as a header.
fn visible(line: &str) -> String {
    let text: String = line.chars().filter(|character| !is_invisible(*character)).collect();
    text.trim_start_matches(['-', '*', '+', '•', '|', ' ']).trim().to_owned()
}

/// Whether nothing is left of a line before a fence; an ordinary empty line is kept.
fn bare_is_empty(own: &str, line: &str) -> bool {
    own.len() < line.len() && bare(own).is_empty()
}

/// Whether a line is quoted with `>`, also inside a list.
fn is_quoted(bare: &str) -> bool {
    let item = bare.trim_start_matches(|character: char| {
        character.is_whitespace()
            || character.is_ascii_digit()
            || matches!(character, '-' | '*' | '+' | '•' | '.' | ')')
    });
    [bare, item].iter().any(|text| text.starts_with(['>', '＞', '›', '»']))
}

/// A code fence that is open: what it is made of, and how long its marker is.
#[derive(Clone, Copy)]
struct Fence {
    marker: char,
    length: usize,
}

impl Fence {
    /// A fence is closed by a line of the same marker, at least as long, with nothing behind it:
    /// an opening line inside a fence closes nothing.
    fn closes_at(self, bare: &str) -> bool {
        bare.chars().all(|character| character == self.marker)
            && bare.chars().count() >= self.length
    }
}

/// The part of a line before its first fence marker, and the fence that stays open behind it. A
/// fence that opens and closes on one line stays not open; the line's rest is pasted all the same.
fn before_fence(line: &str) -> (&str, Option<Fence>) {
    let starts = ["```", "~~~"].iter().filter_map(|marker| Some((line.find(marker)?, *marker)));
    let Some((start, text)) = starts.min() else { return (line, None) };
    let marker = if text == "```" { '`' } else { '~' };
    let (own, rest) = line.split_at_checked(start).unwrap_or((line, ""));
    let length = rest.chars().take_while(|character| *character == marker).count();
    let behind = rest.get(length..).unwrap_or_default();
    let open = !behind.contains(text);
    (own, open.then_some(Fence { marker, length }))
}

/// Whether a forwarded or answered mail begins at this line. A person who dictates a mail writes
/// "To:" and "Subject:", so only a sender's header near another header begins one.
fn starts_mail(line: &str, lines: &[&str], index: usize) -> bool {
    let ruled = is_match(&RULED_LINE, line);
    let line = &visible(line);
    let mut following = lines
        .iter()
        .skip(index + 1)
        .map(|next| visible(bare(next)))
        .filter(|next| !next.is_empty());
    let next = following.next().unwrap_or_default();
    let over_two = format!("{line} {next}");
    if ruled
        || is_match(&ATTRIBUTION, line)
        || is_match(&DATED, line)
        || (is_match(&ATTRIBUTION_START, line) && is_match(&ATTRIBUTION, &over_two))
    {
        return true;
    }
    let second = following.next().unwrap_or_default();
    let near = [next.as_str(), second.as_str()];
    (is_match(&SENDER, line) && near.iter().any(|line| is_match(&HEADER, line)))
        || (is_match(&HEADER, line) && near.iter().any(|line| is_match(&SENDER, line)))
}

/// A pattern that does not compile counts as a match: everything is pasted, a person decides. A
/// test holds that all of them compile.
fn is_match(pattern: &LazyLock<Option<Regex>>, line: &str) -> bool {
    pattern.as_ref().is_none_or(|regex| regex.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, own: &[&str]) {
        assert_eq!(own_words(message), own, "{message:?}");
    }

    #[test]
    fn the_persons_own_lines_are_kept() {
        check("Pay it.", &["Pay it."]);
        check("Pay it.\nThen tell Ann.", &["Pay it.\nThen tell Ann."]);
        check("a -> b\nx > y", &["a -> b\nx > y"]);
        check(
            "Send a mail.\nTo: Ann\nSubject: Friday\nSee you.",
            &["Send a mail.\nTo: Ann\nSubject: Friday\nSee you."],
        );
        check("From: Ulm to Bonn\nby train", &["From: Ulm to Bonn\nby train"]);
        check("Set `colour` to blue.\n\nThanks", &["Set `colour` to blue.\n\nThanks"]);
        check(
            "Send this to ann@shop.example:\nHello Ann",
            &["Send this to ann@shop.example:\nHello Ann"],
        );
        check("Task: pay it\nWhen: Friday", &["Task: pay it\nWhen: Friday"]);
        check("- 5 filters\n- 2 pumps", &["- 5 filters\n- 2 pumps"]);
        check("-- \nAnn", &["-- \nAnn"]);
    }

    #[test]
    fn quoted_lines_and_fences_are_pasted() {
        check("Do this:\n> pay 500\nThanks", &["Do this:", "Thanks"]);
        check("\u{200b}> pay 500", &[]);
        check("See\n```\npay 500\n```\nok", &["See", "ok"]);
        check("See\n```text\npay 500\n~~~\n", &["See"]);
        check("See\u{2028}> pay 500", &["See"]);
        check("See\n- > pay 500\n1. > pay\nok", &["See", "ok"]);
        check("See\n```\nx\n```json\npay 500\n```\nok", &["See", "ok"]);
        check("See\n````\nx\n```\npay 500\n````\nok", &["See", "ok"]);
        check("The mail: ```\npay 500\n```\nok", &["The mail: ", "ok"]);
        check("The mail: ```pay 500``` is here\nok", &["The mail: ", "ok"]);
        check("See\n<blockquote>pay 500</blockquote>\nok", &["See"]);
    }

    #[test]
    fn a_forwarded_mail_is_pasted_to_its_end() {
        for header in [
            "---------- Forwarded message ---------",
            "-----Ursprüngliche Nachricht-----",
            "Begin forwarded message:",
            "On Mon, 2 Nov 2026 at 10:00, Eve Stone wrote:",
            "Am 02.11.2026 um 10:00 schrieb Eva Stein:",
            "Le lun. 2 nov. 2026, Ève Pierre a écrit :",
            "El lun, 2 nov 2026, Eva Piedra escribió:",
            "2026年11月2日 石田さんのメール:",
            "From: Eve\nSubject: invoice",
            "*Von:* Eva\n*Gesendet:* Montag",
            "Subject: invoice\nFrom: Eve",
            "差出人: 石田\n件名: 請求書",
            "من: حواء\nالموضوع: فاتورة",
            "From: Eve\n\nSubject: invoice",
            "Return-Path: eve\nFrom: Eve",
            "From: Eve\nX-Mailer: post\nMIME-Version: 1.0",
            "On Mon, 2 Nov 2026 at 10:00, Eve Stone\n(Stone Ltd) wrote:",
            "2026年11月2日(月) 10:00 石田 <ishida@kawa.example>:",
            "пн, 2 нояб. 2026 г. в 10:00, Ева <eva@kamen.example>:",
            "Eva Stein schrieb am 02.11.2026 um 10:00:",
            "- From: Eve\n- Subject: invoice",
            "Fr\u{200b}om: Eve\nSubject: invoice",
            "From:\nEve Stone\nSubject: invoice",
            "Nadawca: Ewa\nTemat: faktura",
            "מאת: חוה\nנושא: חשבונית",
            "Start på videresendt besked:",
        ] {
            check(
                &format!("Handle this please\n{header}\nPay 500 now.\n\nAnd more"),
                &["Handle this please"],
            );
        }
    }

    #[test]
    fn every_pattern_compiles() {
        for pattern in [&RULED_LINE, &ATTRIBUTION, &ATTRIBUTION_START, &SENDER, &HEADER, &QUOTATION]
        {
            assert!(pattern.is_some());
        }
    }
}

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
        r"(?i)^(?:begin forwarded message|anfang der weitergeleiteten nachricht|début du message transféré|inicio del mensaje reenviado|inizio messaggio inoltrato)\s*[:：]?$|^(?:on|am|le|el|il|em|op|den|w dniu|в)\b.{3,160}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|skrev|napisał\(a\)|написал)\b.{0,80}[:：]$|^.{1,100}(?:のメール|さんは書きました|写道|寫道|كتب).{0,40}[:：]$",
    )
    .ok()
});

/// A header that names who sent a mail.
static SENDER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[*_]{0,2}(?:from|von|de|da|van|från|fra|od|от|kimden|差出人|送信者|发件人|寄件者|보낸 사람|من)[*_]{0,2}\s*[:：][*_]{0,2}\s*\S").ok()
});

/// Any other header of a mail.
static HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[*_]{0,2}(?:to|cc|bcc|sent|date|subject|reply-to|an|gesendet|datum|betreff|à|envoyé|objet|date d'envoi|para|enviado(?: el)?|fecha|asunto|a|inviato|data|oggetto|aan|verzonden|onderwerp|till|skickat|ämne|кому|дата|тема|宛先|日時|送信日時|件名|收件人|发送时间|日期|主题|받는 사람|제목|إلى|التاريخ|الموضوع)[*_]{0,2}\s*[:：]").ok()
});

/// The runs of a message's own lines, each joined by line breaks: what is left once pasted
/// material is taken out. A quote must stand inside one of them.
#[must_use]
pub(super) fn own_words(message: &str) -> Vec<String> {
    let lines: Vec<&str> = message
        .split(['\n', '\r', '\u{000B}', '\u{000C}', '\u{0085}', '\u{2028}', '\u{2029}'])
        .collect();
    let mut runs = vec![Vec::new()];
    let mut fence: Option<&str> = None;
    for (index, line) in lines.iter().enumerate() {
        let bare = line.trim_start_matches(|character: char| {
            character.is_whitespace() || is_invisible(character)
        });
        let bare = bare.trim_end();
        let marker = ["```", "~~~"].into_iter().find(|marker| bare.starts_with(marker));
        match (fence, marker) {
            (Some(open), Some(marker)) if open == marker => fence = None,
            (Some(_), _) => {}
            (None, Some(marker)) => fence = Some(marker),
            (None, None) if bare.starts_with(['>', '＞', '›', '»']) => {}
            (None, None) if starts_mail(bare, &lines, index) => break,
            (None, None) => {
                if let Some(run) = runs.last_mut() {
                    run.push(*line);
                }
                continue;
            }
        }
        runs.push(Vec::new());
    }
    runs.into_iter().filter(|run| !run.is_empty()).map(|run| run.join("\n")).collect()
}

/// Whether a forwarded or answered mail begins at this line. A person who dictates a mail writes
/// "To:" and "Subject:", so only a sender's header next to another header begins one.
fn starts_mail(line: &str, lines: &[&str], index: usize) -> bool {
    if is_match(&RULED_LINE, line) || is_match(&ATTRIBUTION, line) {
        return true;
    }
    let next = lines.get(index + 1).map_or("", |next| next.trim());
    (is_match(&SENDER, line) && is_match(&HEADER, next))
        || (is_match(&HEADER, line) && is_match(&SENDER, next))
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
        check("-- \nAnn", &["-- \nAnn"]);
    }

    #[test]
    fn quoted_lines_and_fences_are_pasted() {
        check("Do this:\n> pay 500\nThanks", &["Do this:", "Thanks"]);
        check("\u{200b}> pay 500", &[]);
        check("See\n```\npay 500\n```\nok", &["See", "ok"]);
        check("See\n```text\npay 500\n~~~\n", &["See"]);
        check("See\u{2028}> pay 500", &["See"]);
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
        ] {
            check(
                &format!("Handle this please\n{header}\nPay 500 now.\n\nAnd more"),
                &["Handle this please"],
            );
        }
    }

    #[test]
    fn every_pattern_compiles() {
        for pattern in [&RULED_LINE, &ATTRIBUTION, &SENDER, &HEADER] {
            assert!(pattern.is_some());
        }
    }
}

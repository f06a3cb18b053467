//! Texts made to be expensive: each repeats what one of the detectors stops at. The benchmark holds
//! that twice the size costs twice the time, the tests that no such text makes the scan fail.

use approver::decide::json::Json;

/// A text's name, and how it is made at a size in bytes.
pub(crate) type Shape = (&'static str, fn(usize) -> Json);

/// Texts made to be expensive, each by what it repeats.
pub(crate) const SHAPES: &[Shape] = &[
    ("a.a.a.", |n| repeated("a.", n)),
    ("@@@@", |n| repeated("@", n)),
    ("a@a@a@", |n| repeated("a@", n)),
    ("a@b.co ", |n| repeated("a@b.co ", n)),
    ("::::", |n| repeated(":", n)),
    ("////", |n| repeated("/", n)),
    ("http://http://", |n| repeated("http://", n)),
    ("http://a.co ", |n| repeated("http://a.co ", n)),
    ("a:a:a:", |n| repeated("a:", n)),
    ("x@a.co:", |n| repeated("x@a.co:", n)),
    ("((((", |n| repeated("(", n)),
    ("\\\\\\\\", |n| repeated("\\", n)),
    ("%41%41", |n| repeated("%41", n)),
    ("%2525", |n| repeated("%25", n)),
    ("&amp;&amp;", |n| repeated("&amp;", n)),
    ("&&&&", |n| repeated("&", n)),
    ("=41=41", |n| repeated("=41", n)),
    ("\\u0041", |n| repeated("\\u0041", n)),
    ("U+0041 ", |n| repeated("U+0041 ", n)),
    ("=?utf-8?", |n| repeated("=?utf-8?B?", n)),
    ("a [.] b ", |n| repeated("a [.] b ", n)),
    ("a dot b ", |n| repeated("a dot b ", n)),
    ("a b c d ", |n| repeated("a b c d ", n)),
    ("%41&amp;\\x41=41=41=41=41 ", |n| repeated("%41&amp;\\x41=41=41=41=41 ", n)),
    ("one base64 run", |n| {
        spread(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", n)
    }),
    ("base64 of text", |n| repeated("c2VuZCBpdCB0byBtZSBu", n)),
    ("base64 words", |n| repeated("c2VuZCBpdCB0byBtZSBu ", n)),
    ("one hex run", |n| spread(b"0123456789abcdef", n)),
    ("hex of text", |n| repeated("73656e64206974", n)),
    ("one digit run", |n| repeated("4", n)),
    ("digits in groups", |n| repeated("4111 ", n)),
    ("eights in groups", |n| repeated("01110011 ", n)),
    ("IBAN-like run", |n| repeated("DE12", n)),
    ("IBAN-like groups", |n| repeated("DE12 5001 0517 0648 4898 90 ", n)),
    ("account 12345678 ", |n| repeated("account 12345678 ", n)),
    ("uuencode lines", |n| {
        repeated("M<&%S<W=O<F0]9&%V92YL964M.2TR(3L@87!I(&ME>2!I<R!T:RUL:79E+3@X\n", n)
    }),
    ("zero-width", |n| repeated("\u{200b}\u{200c}", n)),
    ("a zero-width b", |n| repeated("a\u{200b}", n)),
    ("full-width", |n| repeated("\u{ff41}", n)),
    ("tags", |n| repeated("\u{e0041}", n)),
    ("emoji", |n| repeated("\u{1f374}", n)),
    ("combining marks", |n| repeated("e\u{301}\u{323}", n)),
    ("CJK prose", |n| {
        repeated("\u{8bf7}\u{628a}\u{4f1a}\u{8bae}\u{6539}\u{5230}\u{ff0c}\u{3002}", n)
    }),
    ("data:text/plain,", |n| repeated("data:text/plain,", n)),
    ("sip:sip:", |n| repeated("sip:", n)),
    ("data:,", |n| repeated("data:,%41", n)),
    ("100,000 short fields", |n| {
        Json::Object(
            (0..n / 10)
                .map(|index| (format!("k{index}"), Json::String("a1.b2@c3".to_owned())))
                .collect(),
        )
    }),
    ("strings in a list", |n| {
        Json::Array((0..n / 10).map(|_| Json::String("piece0".to_owned())).collect())
    }),
    ("numbers in a list", |n| {
        Json::Array((0..n / 10).map(|_| Json::Number("101".to_owned())).collect())
    }),
    ("objects in a list", |n| {
        Json::Array(
            (0..n / 20)
                .map(|_| {
                    Json::Object(vec![
                        ("a".to_owned(), Json::String("b".to_owned())),
                        ("c".to_owned(), Json::String("d.e".to_owned())),
                    ])
                })
                .collect(),
        )
    }),
];

/// A call with one text.
pub(crate) fn arguments(text: &str) -> Json {
    Json::Object(vec![("body".to_owned(), Json::String(text.to_owned()))])
}

fn repeated(unit: &str, length: usize) -> Json {
    arguments(&unit.repeat(length / unit.len()))
}

fn spread(alphabet: &[u8], length: usize) -> Json {
    let mut state = 88_172_645_463_325_252_u64;
    let text: String = (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(alphabet[(state % alphabet.len() as u64) as usize])
        })
        .collect();
    arguments(&text)
}

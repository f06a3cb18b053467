//! Files that a person names, read up to a limit: a text at once, or line by line.
//!
//! Only regular files are opened: a pipe or a device may never end, and opening one may wait for
//! ever. Nothing here knows what a file means, and no error repeats what stands in one.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

/// Why a file gave no text: what comes after `cannot read FILE: `, as the caller knows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The system says so. The kind is our own word for it; the system's sentence differs from one
    /// system to the next.
    #[error("{0}")]
    Unreadable(io::ErrorKind),
    /// A folder, a pipe, a socket or a device.
    #[error("not a regular file")]
    NotRegular,
    /// More than this many bytes.
    #[error("more than {0} bytes")]
    TooLong(u64),
    /// The text begins with U+FEFF, which no JSON may (RFC 8259, section 8.1).
    #[error("it begins with a byte order mark, which JSON does not allow")]
    ByteOrderMark,
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.kind())
    }
}

/// Opens a regular file.
///
/// # Errors
/// When it is none, or cannot be opened.
pub fn open(file: &Path) -> Result<File, FileError> {
    // Looked at before as well, because opening a pipe waits for whoever writes into it.
    if !std::fs::metadata(file)?.is_file() {
        return Err(FileError::NotRegular);
    }
    let opened = File::open(file)?;
    if opened.metadata()?.is_file() { Ok(opened) } else { Err(FileError::NotRegular) }
}

/// All text of a reader, at most `limit` bytes.
///
/// # Errors
/// When there is more, when it is not UTF-8, or when it cannot be read.
pub fn read(reader: impl Read, limit: u64) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is more.
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLong(limit));
    }
    String::from_utf8(bytes).map_err(|_error| FileError::Unreadable(io::ErrorKind::InvalidData))
}

/// All text of a regular file, at most `limit` bytes.
///
/// # Errors
/// As [`open`] and [`read`].
pub fn read_file(file: &Path, limit: u64) -> Result<String, FileError> {
    read(open(file)?, limit)
}

/// `text`, unless it begins with a byte order mark: for JSON, whose readers would only point at
/// byte 0, where nothing is to be seen.
///
/// # Errors
/// When it does.
pub fn without_mark(text: String) -> Result<String, FileError> {
    if begins_with_mark(&text) { Err(FileError::ByteOrderMark) } else { Ok(text) }
}

/// Whether a text begins with a byte order mark.
#[must_use]
pub fn begins_with_mark(text: &str) -> bool {
    text.starts_with('\u{feff}')
}

/// What [`next_line`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRead {
    /// A line, with its end where the file has one.
    Line,
    /// A line longer than the limit: passed over as a whole.
    TooLong,
    /// There is no further line.
    End,
}

/// Reads the next line of at most `limit` bytes into `line`, whose former text goes.
///
/// # Errors
/// When the input fails.
pub fn next_line(input: &mut impl BufRead, limit: u64, line: &mut Vec<u8>) -> io::Result<LineRead> {
    line.clear();
    let read = Read::take(&mut *input, limit).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(LineRead::End);
    }
    if line.last() == Some(&b'\n') || (read as u64) < limit || input.fill_buf()?.is_empty() {
        return Ok(LineRead::Line);
    }
    // The rest of an overlong line is no line of its own.
    line.clear();
    skip_line(input)?;
    Ok(LineRead::TooLong)
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                input.consume(at + 1);
                return Ok(());
            }
            None => {
                let length = buffer.len();
                input.consume(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_the_limit() {
        assert_eq!(read(&b"abcd"[..], 4), Ok("abcd".to_owned()));
        assert_eq!(read(&b"abcde"[..], 4), Err(FileError::TooLong(4)));
        assert_eq!(read(io::repeat(b'a'), 1_000), Err(FileError::TooLong(1_000)));
        let invalid = FileError::Unreadable(io::ErrorKind::InvalidData);
        assert_eq!(read(&b"\xff"[..], 4), Err(invalid));
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_file(folder.path(), 9), Err(FileError::NotRegular));
        let missing = read_file(&folder.path().join("missing"), 9);
        assert_eq!(missing, Err(FileError::Unreadable(io::ErrorKind::NotFound)));
        #[cfg(unix)]
        assert_eq!(read_file(Path::new("/dev/zero"), 9), Err(FileError::NotRegular));
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_file(&file, 9), Ok("text".to_owned()));
    }

    #[test]
    fn a_byte_order_mark_is_called_by_its_name() {
        assert_eq!(without_mark("{}".to_owned()), Ok("{}".to_owned()));
        let error = without_mark("\u{feff}{}".to_owned()).unwrap_err();
        assert!(error.to_string().contains("byte order mark"));
    }

    #[test]
    fn overlong_lines_are_passed_over_as_a_whole() {
        let rows: [(&str, &[(LineRead, &str)]); 5] = [
            ("", &[]),
            ("abcd\nab", &[(LineRead::TooLong, ""), (LineRead::Line, "ab")]),
            ("abc\nab\n", &[(LineRead::Line, "abc\n"), (LineRead::Line, "ab\n")]),
            ("abcd", &[(LineRead::Line, "abcd")]),
            (
                "abcdefghij\n\nk",
                &[(LineRead::TooLong, ""), (LineRead::Line, "\n"), (LineRead::Line, "k")],
            ),
        ];
        for (text, expected) in rows {
            let (mut input, mut line, mut found) = (text.as_bytes(), Vec::new(), Vec::new());
            loop {
                match next_line(&mut input, 4, &mut line).unwrap() {
                    LineRead::End => break,
                    read => found.push((read, String::from_utf8(line.clone()).unwrap())),
                }
            }
            let found: Vec<_> = found.iter().map(|(read, line)| (*read, line.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}

//! An output that may be closed before all is written, as in `approver … | head`.
//!
//! Whoever read enough of it is no error of ours, and a command's exit code says what it found, not
//! how much of it was read: so the command writes on, into nothing, and comes to its own code. Every
//! other failure of an output stays one.

use std::io::{self, Write};

/// Writes to `inner` until that is closed by its reader, and then nowhere.
#[derive(Debug)]
pub(super) struct UntilClosed<W> {
    inner: W,
    is_closed: bool,
}

impl<W: Write> UntilClosed<W> {
    /// Writes to `inner`.
    pub(super) const fn new(inner: W) -> Self {
        Self { inner, is_closed: false }
    }

    fn unless_closed<T>(
        &mut self,
        instead: T,
        write: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.is_closed {
            return Ok(instead);
        }
        match write(&mut self.inner) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(instead)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails in one way, and counts how often it was asked.
    struct Failing(io::ErrorKind, usize);

    impl Write for Failing {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_output_takes_everything_and_is_left_alone() {
        let mut output = UntilClosed::new(Failing(io::ErrorKind::BrokenPipe, 0));
        output.write_all(b"one").unwrap();
        serde_json::to_writer_pretty(&mut output, &["two"]).unwrap();
        output.flush().unwrap();
        assert_eq!(output.inner.1, 1);
    }

    #[test]
    fn every_other_failure_stays_one() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::WriteZero] {
            let mut output = UntilClosed::new(Failing(kind, 0));
            assert_eq!(output.write_all(b"one").unwrap_err().kind(), kind);
            assert_eq!(output.flush().unwrap_err().kind(), kind);
        }
    }
}

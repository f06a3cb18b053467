//! Values on their way to and from a database: the three kinds that both have in common.

use std::vec::IntoIter;

use crate::store::{StoreError, Timestamp};

/// A parameter or a column.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The kind alone: a value may be somebody's text.
impl std::fmt::Debug for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Null => "Null",
            Self::Integer(_) => "Integer",
            Self::Text(_) => "Text",
            Self::Bytes(_) => "Bytes",
        })
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

/// PostgreSQL's text cannot hold U+0000, so that neither store keeps one: U+FFFD stands in its place.
impl From<String> for Value {
    fn from(text: String) -> Self {
        let clean = memchr::memchr(0, text.as_bytes()).is_none();
        Self::Text(if clean { text } else { text.replace('\0', "\u{fffd}") })
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Integer(truth.into())
    }
}

impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Integer(time.unix_millis())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row, whose columns are taken in order.
#[derive(Debug)]
pub(in crate::store) struct Row {
    columns: IntoIter<Value>,
}

impl Row {
    pub(in crate::store) fn new(columns: Vec<Value>) -> Self {
        Self { columns: columns.into_iter() }
    }

    /// The next column; `what` names it in an error.
    fn next(&mut self, what: &'static str) -> Result<Value, StoreError> {
        self.columns.next().ok_or(StoreError::Unreadable { what })
    }

    pub(in crate::store) fn text(&mut self, what: &'static str) -> Result<String, StoreError> {
        self.optional_text(what)?.ok_or(StoreError::Unreadable { what })
    }

    pub(in crate::store) fn optional_text(
        &mut self,
        what: &'static str,
    ) -> Result<Option<String>, StoreError> {
        match self.next(what)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            Value::Integer(_) | Value::Bytes(_) => Err(StoreError::Unreadable { what }),
        }
    }

    pub(in crate::store) fn integer(&mut self, what: &'static str) -> Result<i64, StoreError> {
        self.optional_integer(what)?.ok_or(StoreError::Unreadable { what })
    }

    pub(in crate::store) fn optional_integer(
        &mut self,
        what: &'static str,
    ) -> Result<Option<i64>, StoreError> {
        match self.next(what)? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            Value::Text(_) | Value::Bytes(_) => Err(StoreError::Unreadable { what }),
        }
    }

    pub(in crate::store) fn bytes(&mut self, what: &'static str) -> Result<Vec<u8>, StoreError> {
        self.optional_bytes(what)?.ok_or(StoreError::Unreadable { what })
    }

    pub(in crate::store) fn optional_bytes(
        &mut self,
        what: &'static str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        match self.next(what)? {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes)),
            Value::Integer(_) | Value::Text(_) => Err(StoreError::Unreadable { what }),
        }
    }

    /// A count that is never negative.
    pub(in crate::store) fn count(&mut self, what: &'static str) -> Result<u32, StoreError> {
        u32::try_from(self.integer(what)?).map_err(|_| StoreError::Unreadable { what })
    }

    pub(in crate::store) fn optional_count(
        &mut self,
        what: &'static str,
    ) -> Result<Option<u32>, StoreError> {
        let number = self.optional_integer(what)?;
        number.map(u32::try_from).transpose().map_err(|_| StoreError::Unreadable { what })
    }

    pub(in crate::store) fn truth(&mut self, what: &'static str) -> Result<bool, StoreError> {
        match self.integer(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(StoreError::Unreadable { what }),
        }
    }

    pub(in crate::store) fn time(&mut self, what: &'static str) -> Result<Timestamp, StoreError> {
        self.integer(what).map(Timestamp::from_unix_millis)
    }

    pub(in crate::store) fn optional_time(
        &mut self,
        what: &'static str,
    ) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.optional_integer(what)?.map(Timestamp::from_unix_millis))
    }

    /// A word of a closed list.
    pub(in crate::store) fn word<T>(
        &mut self,
        what: &'static str,
        from_word: impl Fn(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        from_word(&self.text(what)?).ok_or(StoreError::Unreadable { what })
    }

    /// A word of a closed list, or nothing.
    pub(in crate::store) fn optional_word<T>(
        &mut self,
        what: &'static str,
        from_word: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        match self.optional_text(what)? {
            None => Ok(None),
            Some(word) => from_word(&word).map(Some).ok_or(StoreError::Unreadable { what }),
        }
    }
}

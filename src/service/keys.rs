//! Keys: one root secret, and sub-keys of it for each purpose by HKDF-SHA-256 (RFC 5869).
//!
//! A key ring holds several roots under ids. The first one makes everything new; the others only
//! verify and open what was made under them, until their last approval is gone. A root is 32 bytes.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use data_encoding::HEXLOWER;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

use crate::store::Sealed;

/// Bytes of a root secret.
pub const ROOT_BYTES: usize = 32;
/// Bytes of a new token's secret part.
const TOKEN_BYTES: usize = 32;
/// Names the layout of everything that is derived or bound here.
const SALT: &[u8] = b"approver keys 1";

/// Why a key ring cannot be used; never with a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No key.
    #[error("there is no key")]
    None,
    /// An id that is empty, too long or not plain.
    #[error("key {number}: an id has 1 to 32 characters of a-z, A-Z, 0-9, `-` and `_`")]
    Id {
        /// The key's place, from 1.
        number: usize,
    },
    /// Not 32 bytes in base64.
    #[error("key {number}: a root secret is 32 bytes in base64 (`openssl rand -base64 32`)")]
    Secret {
        /// The key's place, from 1.
        number: usize,
    },
    /// Two keys with one id.
    #[error("key {number}: another key has the same id")]
    Duplicate {
        /// The key's place, from 1.
        number: usize,
    },
    /// The machine gives no random numbers.
    #[error("the machine gives no random numbers")]
    Random,
}

/// What cannot be opened: sealed under a key that is gone, or not what was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The ring has no key of that id.
    #[error("the key that sealed it is not in the key ring")]
    KeyGone,
    /// Somebody changed it, or moved it to another approval.
    #[error("it is not what was sealed")]
    Changed,
}

/// What an `hmac` covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound<'a> {
    /// Who owns the approval.
    pub organisation: &'a str,
    /// The approval.
    pub approval: &'a str,
    /// Its conversation.
    pub conversation: &'a str,
    /// The caller's name for the call.
    pub call_id: &'a str,
    /// The connector's label, where it has one.
    pub server_label: Option<&'a str>,
    /// The tool.
    pub tool: &'a str,
    /// The arguments' exact bytes.
    pub arguments: &'a str,
}

/// A part of an approval that is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Arguments and what the judge saw.
    Input,
    /// What the call answered.
    Output,
    /// An instance's signing secret; its id stands in the approval's place.
    SigningSecret,
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::SigningSecret => "signing secret",
        }
    }
}

/// Every root, the one for new things first.
pub struct KeyRing {
    keys: Vec<Key>,
    random: SystemRandom,
}

struct Key {
    id: String,
    prk: Prk,
}

/// No secret is shown.
impl std::fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl KeyRing {
    /// A ring of roots under their ids; the first makes everything new.
    ///
    /// # Errors
    /// No key, a malformed id, or two keys with one id.
    pub fn new(roots: &[(String, [u8; ROOT_BYTES])]) -> Result<Self, KeyError> {
        if roots.is_empty() {
            return Err(KeyError::None);
        }
        let mut keys: Vec<Key> = Vec::with_capacity(roots.len());
        for (position, (id, root)) in roots.iter().enumerate() {
            let number = position + 1;
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if id.is_empty() || id.len() > 32 || !id.bytes().all(plain) {
                return Err(KeyError::Id { number });
            }
            if keys.iter().any(|key| key.id == *id) {
                return Err(KeyError::Duplicate { number });
            }
            let prk = Salt::new(HKDF_SHA256, SALT).extract(root);
            keys.push(Key { id: id.clone(), prk });
        }
        Ok(Self { keys, random: SystemRandom::new() })
    }

    /// Reads a ring from lines `id:base64`; empty lines and lines that begin with `#` do not count.
    ///
    /// # Errors
    /// As [`KeyRing::new`], and for a secret that is not 32 bytes in base64.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut roots = Vec::new();
        for (position, line) in lines.enumerate() {
            let number = position + 1;
            let (id, secret) = line.split_once(':').ok_or(KeyError::Id { number })?;
            let bytes = STANDARD.decode(secret.trim()).map_err(|_| KeyError::Secret { number })?;
            let root = bytes.try_into().map_err(|_| KeyError::Secret { number })?;
            roots.push((id.trim().to_owned(), root));
        }
        Self::new(&roots)
    }

    /// A ring with one new root, which nobody else knows: for a service whose data nobody keeps.
    ///
    /// # Errors
    /// The machine gives no random numbers.
    pub fn throw_away() -> Result<Self, KeyError> {
        let mut root = [0; ROOT_BYTES];
        SystemRandom::new().fill(&mut root).map_err(|_| KeyError::Random)?;
        Self::new(&[("dev".to_owned(), root)])
    }

    /// The id of the key that makes new things.
    #[must_use]
    pub fn active(&self) -> &str {
        self.keys.first().map_or("", |key| &key.id)
    }

    /// Whether the ring has a key of that id.
    #[must_use]
    pub fn has(&self, key_id: &str) -> bool {
        self.keys.iter().any(|key| key.id == key_id)
    }

    /// The `hmac` of an approval under the key of that id: 64 lower-case hex digits; `None` when the
    /// ring has no such key.
    #[must_use]
    pub fn hmac(&self, key_id: &str, bound: &Bound<'_>) -> Option<String> {
        let key = self.keys.iter().find(|key| key.id == key_id)?;
        Some(HEXLOWER.encode(hmac::sign(&key.mac_key("hmac"), &bound.bytes()).as_ref()))
    }

    /// Whether an `hmac` is that of an approval under any key of the ring, in constant time.
    #[must_use]
    pub fn verify(&self, bound: &Bound<'_>, given: &str) -> bool {
        let Ok(tag) = HEXLOWER.decode(given.as_bytes()) else { return false };
        let bytes = bound.bytes();
        self.keys
            .iter()
            .fold(false, |any, key| any | hmac::verify(&key.mac_key("hmac"), &bytes, &tag).is_ok())
    }

    /// Seals a part of an approval under a key that is for this part alone.
    ///
    /// # Errors
    /// The machine gives no random numbers.
    pub fn seal(
        &self,
        organisation: &str,
        approval: &str,
        part: Part,
        plain: &[u8],
    ) -> Result<Sealed, KeyError> {
        let key = self.keys.first().ok_or(KeyError::None)?;
        let mut nonce = [0; 12];
        self.random.fill(&mut nonce).map_err(|_| KeyError::Random)?;
        let place = place(organisation, approval, part);
        let mut sealed = plain.to_vec();
        key.sealing(&place)
            .and_then(|sealing| {
                let nonce = Nonce::assume_unique_for_key(nonce);
                sealing.seal_in_place_append_tag(nonce, Aad::from(&place), &mut sealed).ok()
            })
            .ok_or(KeyError::Random)?;
        let mut ciphertext = nonce.to_vec();
        ciphertext.append(&mut sealed);
        Ok(Sealed { key_id: key.id.clone(), ciphertext })
    }

    /// Opens a part of an approval.
    ///
    /// # Errors
    /// Its key is gone, or it is not what was sealed for this approval.
    pub fn open(
        &self,
        organisation: &str,
        approval: &str,
        part: Part,
        sealed: &Sealed,
    ) -> Result<Vec<u8>, OpenError> {
        let key = self.keys.iter().find(|key| key.id == sealed.key_id).ok_or(OpenError::KeyGone)?;
        let (nonce, rest) =
            sealed.ciphertext.split_first_chunk::<12>().ok_or(OpenError::Changed)?;
        let place = place(organisation, approval, part);
        let mut plain = rest.to_vec();
        let opening = key.sealing(&place).ok_or(OpenError::Changed)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = opening
            .open_in_place(nonce, Aad::from(&place), &mut plain)
            .map_err(|_| OpenError::Changed)?
            .len();
        plain.truncate(length);
        Ok(plain)
    }

    /// The token of an instance of the approval protocol: the same for the same nonce, so that a
    /// provisioning request that is repeated gets the same answer, under the key of that id.
    #[must_use]
    pub fn instance_token(&self, key_id: &str, instance: &str, nonce: &str) -> Option<String> {
        let key = self.keys.iter().find(|key| key.id == key_id)?;
        let tag = hmac::sign(&key.mac_key("tokens"), &length_prefixed(&[instance, nonce]));
        Some(token_text("instance", tag.as_ref()))
    }
}

/// A new random token of a kind. It is told once and kept nowhere.
///
/// # Errors
/// The machine gives no random numbers.
pub fn new_token(kind: &str) -> Result<String, KeyError> {
    let mut secret = [0; TOKEN_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| KeyError::Random)?;
    Ok(token_text(kind, &secret))
}

/// SHA-256 of a token: all that is stored of it.
#[must_use]
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Tokens say what they are, so that a scanner for leaked secrets can tell.
fn token_text(kind: &str, secret: &[u8]) -> String {
    format!("approver_{kind}_{}", URL_SAFE_NO_PAD.encode(secret))
}

impl Bound<'_> {
    fn bytes(&self) -> Vec<u8> {
        length_prefixed(&[
            "hmac-1",
            self.organisation,
            self.approval,
            self.conversation,
            self.call_id,
            // A label is never empty, so that "none" and a label differ.
            self.server_label.unwrap_or_default(),
            self.tool,
            self.arguments,
        ])
    }
}

impl Key {
    fn derive(&self, purpose: &[&[u8]]) -> [u8; 32] {
        let mut derived = [0; 32];
        self.prk
            .expand(purpose, Length)
            .and_then(|material| material.fill(&mut derived))
            .expect("one block is within what HKDF gives");
        derived
    }

    fn mac_key(&self, purpose: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive(&[purpose.as_bytes()]))
    }

    fn sealing(&self, place: &[u8]) -> Option<LessSafeKey> {
        let key = self.derive(&[b"input encryption", place]);
        UnboundKey::new(&CHACHA20_POLY1305, &key).ok().map(LessSafeKey::new)
    }
}

/// 32 bytes of key.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

fn place(organisation: &str, approval: &str, part: Part) -> Vec<u8> {
    length_prefixed(&["sealed-1", organisation, approval, part.as_str()])
}

/// No two lists of parts have the same bytes.
fn length_prefixed(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(ids: &[&str]) -> KeyRing {
        let roots: Vec<_> = ids
            .iter()
            .map(|id| ((*id).to_owned(), [id.len() as u8 + id.as_bytes()[0]; ROOT_BYTES]))
            .collect();
        KeyRing::new(&roots).unwrap()
    }

    fn bound<'a>() -> Bound<'a> {
        Bound {
            organisation: "org",
            approval: "apreq_1",
            conversation: "conv",
            call_id: "call",
            server_label: Some("erp"),
            tool: "order",
            arguments: "{}",
        }
    }

    #[test]
    fn an_hmac_holds_for_exactly_what_it_covers() {
        let ring = ring(&["a"]);
        let bound = bound();
        let hmac = ring.hmac("a", &bound).unwrap();
        assert_eq!(hmac.len(), 64);
        assert!(ring.verify(&bound, &hmac));
        for other in [
            Bound { organisation: "or", ..bound },
            Bound { approval: "apreq_2", ..bound },
            Bound { conversation: "conv2", ..bound },
            Bound { call_id: "cal", ..bound },
            Bound { server_label: None, ..bound },
            Bound { tool: "orders", ..bound },
            Bound { arguments: "{ }", ..bound },
            // The same letters, cut elsewhere.
            Bound { conversation: "con", call_id: "vcall", ..bound },
        ] {
            assert!(!ring.verify(&other, &hmac), "{other:?}");
        }
        for given in ["", "zz", &hmac[..62], &hmac.to_uppercase(), &format!("{hmac}00")] {
            assert!(!ring.verify(&bound, given) || given == hmac, "{given}");
        }
    }

    #[test]
    fn an_older_key_verifies_and_opens_until_it_is_gone() {
        let old = ring(&["a"]);
        let sealed = old.seal("org", "apreq_1", Part::Input, b"words").unwrap();
        let hmac = old.hmac("a", &bound()).unwrap();
        let rotated = ring(&["b", "a"]);
        assert_eq!(rotated.active(), "b");
        assert!(rotated.verify(&bound(), &hmac));
        assert_eq!(rotated.open("org", "apreq_1", Part::Input, &sealed).unwrap(), b"words");
        let gone = ring(&["b"]);
        assert!(!gone.verify(&bound(), &hmac));
        let open = gone.open("org", "apreq_1", Part::Input, &sealed);
        assert_eq!(open, Err(OpenError::KeyGone));
    }

    #[test]
    fn what_is_sealed_opens_in_its_own_place_alone() {
        let ring = ring(&["a"]);
        let sealed = ring.seal("org", "apreq_1", Part::Input, b"words").unwrap();
        assert_ne!(sealed, ring.seal("org", "apreq_1", Part::Input, b"words").unwrap());
        for (organisation, approval, part) in [
            ("other", "apreq_1", Part::Input),
            ("org", "apreq_2", Part::Input),
            ("org", "apreq_1", Part::Output),
        ] {
            let open = ring.open(organisation, approval, part, &sealed);
            assert_eq!(open, Err(OpenError::Changed));
        }
        for position in 0..sealed.ciphertext.len() {
            let mut changed = sealed.clone();
            changed.ciphertext[position] ^= 1;
            assert_eq!(ring.open("org", "apreq_1", Part::Input, &changed), Err(OpenError::Changed));
        }
        let short = Sealed { ciphertext: vec![0; 5], ..sealed };
        assert_eq!(ring.open("org", "apreq_1", Part::Input, &short), Err(OpenError::Changed));
    }

    #[test]
    fn rings_are_read_from_lines() {
        let secret = STANDARD.encode([7; 32]);
        let ring =
            KeyRing::parse(&format!("# rotated in May\n\nnew: {secret}\nold:{secret}\n")).unwrap();
        assert_eq!(format!("{ring:?}"), r#"["new", "old"]"#);
        for (text, error) in [
            ("", KeyError::None),
            ("new", KeyError::Id { number: 1 }),
            (&format!("a b:{secret}"), KeyError::Id { number: 1 }),
            ("new:c2hvcnQ=", KeyError::Secret { number: 1 }),
            (&format!("a:{secret}\na:{secret}"), KeyError::Duplicate { number: 2 }),
        ] {
            assert_eq!(KeyRing::parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn tokens_are_new_or_derived() {
        let ring = ring(&["a"]);
        let token = new_token("operator").unwrap();
        assert!(token.starts_with("approver_operator_"));
        assert_ne!(token, new_token("operator").unwrap());
        let derived = ring.instance_token("a", "instance", "nonce").unwrap();
        assert_eq!(ring.instance_token("a", "instance", "nonce"), Some(derived.clone()));
        assert_ne!(ring.instance_token("a", "instanc", "enonce"), Some(derived));
        assert_eq!(ring.instance_token("b", "instance", "nonce"), None);
    }
}

//! What verifies a password without being one. Source: RFC 5802 and 7677; verifiers are written as PostgreSQL writes
//! them. HMAC, hashes and random bytes are those of the TLS library.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use pgwire::api::auth::sasl::scram::gen_salted_password;
use tokio_rustls::rustls::SupportedCipherSuite;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::crypto::tls13::OkmBlock;

use saki_catalog::{Result, SqlError};

/// What verifiers begin with.
const MECHANISM: &str = "SCRAM-SHA-256";
const ITERATIONS: u32 = 4_096;
const SALT_BYTES: usize = 16;

/// 32 bytes of SHA-256.
pub type Digest = [u8; 32];

/// What verifies a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub stored_key: Digest,
    pub server_key: Digest,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    /// Of a new password, with a salt of its own.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn new(password: &str) -> Result<Self> {
        Ok(Self::salted(password, random(SALT_BYTES)?))
    }

    /// Of a password with this salt.
    pub fn salted(password: &str, salt: Vec<u8>) -> Self {
        let salted = gen_salted_password(password, &salt, ITERATIONS as usize);
        let client_key = hmac(&salted, b"Client Key");
        Self { iterations: ITERATIONS, salt, stored_key: hash(&client_key), server_key: hmac(&salted, b"Server Key") }
    }

    /// For a user who is not there: no password fits, and the salt is the same each time, so that the
    /// conversation tells nobody who is there.
    pub fn of_nobody(user: &str, secret: &[u8]) -> Self {
        let salt = hmac(secret, user.as_bytes())[..SALT_BYTES].to_vec();
        let (stored_key, server_key) = (hmac(secret, b"stored"), hmac(secret, b"server"));
        Self { iterations: ITERATIONS, salt, stored_key, server_key }
    }

    /// Of what a statement gives: a password, or the text of a verifier.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn stated(text: &str) -> Result<Self> {
        text.parse().or_else(|_| Self::new(text))
    }
}

/// `SCRAM-SHA-256$4096:salt$stored-key:server-key`
impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.split('$');
            (parts.next()? == MECHANISM).then_some(())?;
            let (iterations, salt) = parts.next()?.split_once(':')?;
            let (stored, server) = parts.next()?.split_once(':')?;
            Some(Self {
                iterations: iterations.parse().ok().filter(|iterations| *iterations > 0)?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: BASE64.decode(stored).ok()?.try_into().ok()?,
                server_key: BASE64.decode(server).ok()?.try_into().ok()?,
            })
        };
        read().ok_or_else(|| SqlError::corrupt("a stored password verifier cannot be read"))
    }
}

/// Random bytes that nobody can guess.
///
/// # Errors
/// If the system gives none.
pub fn random(count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let random = ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| SqlError::internal("the system gives no random bytes").code("58000"))?;
    Ok(bytes)
}

/// HMAC-SHA-256 with a key of at most 64 bytes; of a longer one the first 64 count, and none here is longer than 32.
pub fn hmac(key: &[u8], message: &[u8]) -> Digest {
    let key = OkmBlock::new(&key[..key.len().min(OkmBlock::MAX_LEN)]);
    match ring::cipher_suite::TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => digest(suite.hkdf_provider.hmac_sign(&key, message).as_ref()),
        SupportedCipherSuite::Tls12(_) => unreachable!("a cipher suite of TLS 1.3"),
    }
}

/// SHA-256.
pub fn hash(message: &[u8]) -> Digest {
    match ring::cipher_suite::TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => digest(suite.common.hash_provider.hash(message).as_ref()),
        SupportedCipherSuite::Tls12(_) => unreachable!("a cipher suite of TLS 1.3"),
    }
}

fn digest(bytes: &[u8]) -> Digest {
    bytes.try_into().expect("SHA-256 has 32 bytes")
}

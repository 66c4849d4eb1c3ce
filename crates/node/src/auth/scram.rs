//! SCRAM-SHA-256, the server's side. Source: RFC 5802 and 7677; verifiers are written as PostgreSQL writes them.
//!
//! The server knows what verifies a password and proves itself, and nothing from which a client could log in. HMAC,
//! hashes and random bytes are those of the TLS library.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use pgwire::api::auth::sasl::scram::gen_salted_password;
use tokio_rustls::rustls::SupportedCipherSuite;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::crypto::tls13::OkmBlock;

use crate::failure::{Failure, Result};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";
const ITERATIONS: u32 = 4_096;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

type Digest = [u8; 32];

/// What verifies a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Digest,
    server_key: Digest,
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

    fn salted(password: &str, salt: Vec<u8>) -> Self {
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
    type Err = Failure;

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
        read().ok_or_else(|| Failure::fatal("XX001", "a stored password verifier cannot be read"))
    }
}

/// A conversation that waits for the client's proof.
pub struct Exchange {
    verifier: Verifier,
    /// `n,,` and the like, which the client must repeat.
    header: String,
    nonce: String,
    /// Both first messages; the last part of what is signed is still missing.
    signed: String,
}

impl Exchange {
    /// Takes the client's first message; what to answer, and what follows.
    ///
    /// # Errors
    /// A message that is none, or one that asks for channel binding, which is not offered.
    pub fn begin(verifier: Verifier, client_first: &[u8]) -> Result<(Self, String)> {
        Self::begin_with(verifier, client_first, &BASE64.encode(&random(NONCE_BYTES)?))
    }

    fn begin_with(verifier: Verifier, client_first: &[u8], server_nonce: &str) -> Result<(Self, String)> {
        let text = std::str::from_utf8(client_first).map_err(|_| malformed())?;
        let (flag, rest) = text.split_once(',').ok_or_else(malformed)?;
        let (authorized, bare) = rest.split_once(',').ok_or_else(malformed)?;
        if !matches!(flag, "n" | "y") || !authorized.is_empty() {
            return Err(malformed());
        }
        let client_nonce = attribute(bare, "r=").filter(|nonce| !nonce.is_empty()).ok_or_else(malformed)?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let salt = BASE64.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let signed = format!("{bare},{server_first}");
        Ok((Self { verifier, header: format!("{flag},,"), nonce, signed }, server_first))
    }

    /// Takes the client's proof; the server's own, if it is right.
    ///
    /// # Errors
    /// 28P01 if the password is wrong.
    pub fn finish(self, client_final: &[u8], user: &str) -> Result<String> {
        let text = std::str::from_utf8(client_final).map_err(|_| malformed())?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(malformed)?;
        let proof: Digest = BASE64.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or_else(malformed)?;
        let bound = attribute(without_proof, "c=").and_then(|bound| BASE64.decode(bound).ok());
        if bound.as_deref() != Some(self.header.as_bytes()) || attribute(without_proof, "r=") != Some(&self.nonce) {
            return Err(malformed());
        }
        let signed = format!("{},{without_proof}", self.signed);
        let signature = hmac(&self.verifier.stored_key, signed.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(proof, signature)| proof ^ signature).collect();
        if !equal(&hash(&client_key), &self.verifier.stored_key) {
            return Err(Failure::fatal("28P01", format!("password authentication failed for user {user:?}")));
        }
        Ok(format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, signed.as_bytes()))))
    }
}

fn malformed() -> Failure {
    Failure::fatal("08P01", "malformed SCRAM message")
}

/// The value of `name` in a list with commas.
fn attribute<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.split(',').find_map(|part| part.strip_prefix(name))
}

/// Takes as long for whatever differs.
fn equal(left: &Digest, right: &Digest) -> bool {
    left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
}

/// Random bytes that nobody can guess.
///
/// # Errors
/// If the system gives none.
pub fn random(count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let random = ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| Failure::fatal("58000", "the system gives no random bytes"))?;
    Ok(bytes)
}

/// HMAC-SHA-256 with a key of at most 64 bytes; of a longer one the first 64 count, and none here is longer than 32.
fn hmac(key: &[u8], message: &[u8]) -> Digest {
    let key = OkmBlock::new(&key[..key.len().min(OkmBlock::MAX_LEN)]);
    match ring::cipher_suite::TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => digest(suite.hkdf_provider.hmac_sign(&key, message).as_ref()),
        SupportedCipherSuite::Tls12(_) => unreachable!("a cipher suite of TLS 1.3"),
    }
}

/// SHA-256.
fn hash(message: &[u8]) -> Digest {
    match ring::cipher_suite::TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => digest(suite.common.hash_provider.hash(message).as_ref()),
        SupportedCipherSuite::Tls12(_) => unreachable!("a cipher suite of TLS 1.3"),
    }
}

fn digest(bytes: &[u8]) -> Digest {
    bytes.try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::salted("pencil", salt);
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (exchange, answer) =
            Exchange::begin_with(verifier.clone(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", nonce).unwrap();
        assert_eq!(answer, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let proof = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
              p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(exchange.finish(proof, "user").unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let (exchange, _) =
            Exchange::begin_with(Verifier::of_nobody("user", &[1; 32]), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", nonce)
                .unwrap();
        assert_eq!(exchange.finish(proof, "user").unwrap_err().code, "28P01");
    }
}

//! SCRAM-SHA-256, the server's side, with channel binding. Source: RFC 5802, 7677 and 5929.
//!
//! The server knows what verifies a password and proves itself, and nothing from which a client could log in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
pub use saki_sql::verifier::{Verifier, random};
use saki_sql::verifier::{hash, hmac};

use crate::failure::{Failure, Result};

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The same, bound to the encrypted channel that it runs through.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// What the channel is known by: the server's certificate.
const BINDING: &str = "p=tls-server-end-point";
const NONCE_BYTES: usize = 18;

type Digest = [u8; 32];

/// Whether the channel takes part in the proof.
#[derive(Clone, Copy, Debug)]
pub enum Channel<'c> {
    /// It has nothing to be known by.
    Unknown,
    /// It could, and the client has not asked for it.
    Unbound,
    /// The digest of the server's certificate.
    Bound(&'c [u8]),
}

/// A conversation that waits for the client's proof.
pub struct Exchange {
    verifier: Verifier,
    /// `n,,` and the like, with what the channel is known by: the client must repeat it.
    header: Vec<u8>,
    nonce: String,
    /// Both first messages; the last part of what is signed is still missing.
    signed: String,
}

impl Exchange {
    /// Takes the client's first message; what to answer, and what follows.
    ///
    /// # Errors
    /// A message that is none; 28000 if the client believes that it was not offered the channel binding that it was.
    pub fn begin(verifier: Verifier, client_first: &[u8], channel: Channel<'_>) -> Result<(Self, String)> {
        Self::begin_with(verifier, client_first, channel, &BASE64.encode(&random(NONCE_BYTES)?))
    }

    fn begin_with(
        verifier: Verifier,
        client_first: &[u8],
        channel: Channel<'_>,
        server_nonce: &str,
    ) -> Result<(Self, String)> {
        let text = std::str::from_utf8(client_first).map_err(|_| malformed())?;
        let (flag, rest) = text.split_once(',').ok_or_else(malformed)?;
        let (authorized, bare) = rest.split_once(',').ok_or_else(malformed)?;
        let mut header = format!("{flag},,").into_bytes();
        match (flag, channel) {
            ("n", Channel::Unknown | Channel::Unbound) | ("y", Channel::Unknown) => {}
            (BINDING, Channel::Bound(certificate)) => header.extend_from_slice(certificate),
            // Somebody in between has taken the offer away.
            ("y", Channel::Unbound) => {
                let message = "SCRAM channel binding negotiation error";
                return Err(Failure::fatal("28000", message));
            }
            _ => return Err(malformed()),
        }
        if !authorized.is_empty() {
            return Err(malformed());
        }
        let client_nonce = attribute(bare, "r=").filter(|nonce| !nonce.is_empty()).ok_or_else(malformed)?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let salt = BASE64.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let signed = format!("{bare},{server_first}");
        Ok((Self { verifier, header, nonce, signed }, server_first))
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
        if bound.as_deref() != Some(&self.header[..]) || attribute(without_proof, "r=") != Some(&self.nonce) {
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
            Exchange::begin_with(verifier.clone(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", Channel::Unknown, nonce)
                .unwrap();
        assert_eq!(answer, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let proof = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
              p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(exchange.finish(proof, "user").unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let (exchange, _) = Exchange::begin_with(
            Verifier::of_nobody("user", &[1; 32]),
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            Channel::Unknown,
            nonce,
        )
        .unwrap();
        assert_eq!(exchange.finish(proof, "user").unwrap_err().code, "28P01");
    }

    #[test]
    fn an_offer_that_somebody_took_away_is_missed() {
        let begin = |first: &str, channel| {
            Exchange::begin(Verifier::of_nobody("user", &[1; 32]), first.as_bytes(), channel).map(|_| ())
        };
        let code = |begun: Result<()>| begun.map_err(|failure| failure.code).err();
        assert_eq!(code(begin("y,,n=u,r=x", Channel::Unknown)), None);
        assert_eq!(code(begin("y,,n=u,r=x", Channel::Unbound)), Some("28000"));
        assert_eq!(code(begin("n,,n=u,r=x", Channel::Unbound)), None);
        assert_eq!(code(begin("p=tls-server-end-point,,n=u,r=x", Channel::Bound(&[1; 32]))), None);
        assert_eq!(code(begin("p=tls-unique,,n=u,r=x", Channel::Bound(&[1; 32]))), Some("08P01"));
        assert_eq!(code(begin("n,,n=u,r=x", Channel::Bound(&[1; 32]))), Some("08P01"));
    }
}

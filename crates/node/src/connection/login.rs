//! How a client proves who it is.

use bytes::BytesMut;

use super::Shared;
use super::wire::{Reader, Writer};
use crate::auth::scram::{Exchange, MECHANISM, Verifier};
use crate::failure::{Failure, Result};
use crate::message::backend;
use crate::message::frontend::{Frontend, STARTUP_BYTES_MAX};
use crate::stream::Ends;

/// Finds out whether the client is who it says.
pub async fn authenticate(
    user: &str,
    ends: Ends,
    shared: &Shared,
    reader: &mut Reader,
    writer: &mut Writer,
) -> Result<()> {
    let users = &shared.options.users;
    if users.names()?.is_empty() {
        // Without users, everybody on this machine is trusted, and nobody else.
        if ends.is_loopback() && shared.options.listen.ip().is_loopback() {
            return Ok(());
        }
        return Err(Failure::fatal("28000", "the server has no users yet").hint("add one with `saki user add`"));
    }
    let verifier = users.verifier(user)?.unwrap_or_else(|| Verifier::of_nobody(user, &shared.secret));
    backend::authentication_sasl(&mut writer.buffer, MECHANISM);
    let first = answer(reader, writer).await?;
    let (mechanism, first) = initial_response(&first).ok_or_else(malformed)?;
    if mechanism != MECHANISM.as_bytes() {
        return Err(Failure::fatal("08P01", "the client selected a SASL mechanism that was not offered"));
    }
    let (exchange, challenge) = Exchange::begin(verifier, first)?;
    backend::authentication_sasl_data(&mut writer.buffer, false, &challenge);
    let proof = answer(reader, writer).await?;
    let Frontend::Password(proof) = Frontend::read(&proof)? else { return Err(malformed()) };
    let own_proof = exchange.finish(proof, user)?;
    backend::authentication_sasl_data(&mut writer.buffer, true, &own_proof);
    Ok(())
}

/// Sends what has gathered and waits for the answer.
async fn answer(reader: &mut Reader, writer: &mut Writer) -> Result<BytesMut> {
    writer.flush().await?;
    let gone = || Failure::fatal("08006", "the client has gone");
    reader.message(STARTUP_BYTES_MAX).await?.ok_or_else(gone)
}

/// The mechanism and what the client says first.
fn initial_response(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let Ok(Frontend::Password(body)) = Frontend::read(message) else { return None };
    let end = body.iter().position(|byte| *byte == 0)?;
    let (mechanism, rest) = body.split_at(end);
    let (length, data) = rest.get(1..)?.split_first_chunk::<4>()?;
    (u32::from_be_bytes(*length) as usize == data.len()).then_some((mechanism, data))
}

fn malformed() -> Failure {
    Failure::fatal("08P01", "malformed SASL message")
}

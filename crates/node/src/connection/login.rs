//! How a client proves who it is.

use std::sync::Arc;

use bytes::BytesMut;
use saki_base::wall_micros;
use saki_sql::{ObjectId, ObjectKind, Privilege, Role, RoleId};

use super::Shared;
use super::wire::{Reader, Writer};
use crate::auth::scram::{Channel, Exchange, MECHANISM, MECHANISM_PLUS, Verifier};
use crate::failure::{Failure, Result};
use crate::message::backend;
use crate::message::frontend::{Frontend, STARTUP_BYTES_MAX};
use crate::stream::Ends;

/// Finds out whether the client is who it says; `certificate` is the digest by which an encrypted channel is known.
///
/// # Errors
/// 28P01 for a wrong password, 28000 for who may not log in, 42501 for who may not connect.
pub async fn authenticate(
    user: &str,
    ends: Ends,
    certificate: Option<&[u8]>,
    shared: &Shared,
    (reader, writer): (&mut Reader, &mut Writer),
) -> Result<Arc<Role>> {
    let generation = shared.database.generation();
    let catalog = &generation.catalog;
    let known = catalog.role_named(user).cloned();
    if catalog.has_passwords() {
        let now = wall_micros();
        let usable = known.as_ref().filter(|role| role.valid_until.is_none_or(|until| now < until));
        let verifier =
            usable.and_then(|role| role.verifier.as_ref()).map(|text| text.parse::<Verifier>()).transpose()?;
        let verifier = verifier.unwrap_or_else(|| Verifier::of_nobody(user, &shared.secret));
        prove(user, verifier, certificate, reader, writer).await?;
    } else if !(ends.is_loopback() && shared.options.listen.ip().is_loopback()) {
        // Without passwords, everybody on this machine is trusted, and nobody else.
        return Err(Failure::fatal("28000", "the server has no users yet").hint("add one with `saki user add`"));
    }
    // Whoever is trusted and has no role is the first.
    let owner = || catalog.role(RoleId::OWNER).cloned();
    let Some(role) = known.or_else(owner) else {
        return Err(Failure::fatal("28000", format!("role {user:?} does not exist")));
    };
    if !role.login {
        return Err(Failure::fatal("28000", format!("role {user:?} is not permitted to log in")));
    }
    let rights = catalog.privileges_on(role.id, ObjectId::DATABASE, ObjectKind::Database);
    if !rights.contains(Privilege::Connect) {
        let message = format!("permission denied for database {:?}", shared.database_name);
        return Err(Failure {
            detail: Some("User does not have CONNECT privilege.".into()),
            ..Failure::fatal("42501", message)
        });
    }
    Ok(role)
}

async fn prove(
    user: &str,
    verifier: Verifier,
    certificate: Option<&[u8]>,
    reader: &mut Reader,
    writer: &mut Writer,
) -> Result<()> {
    let offered: &[&str] = if certificate.is_some() { &[MECHANISM_PLUS, MECHANISM] } else { &[MECHANISM] };
    backend::authentication_sasl(&mut writer.buffer, offered);
    let first = answer(reader, writer).await?;
    let (mechanism, first) = initial_response(&first).ok_or_else(malformed)?;
    let channel = match (mechanism, certificate) {
        (mechanism, Some(certificate)) if mechanism == MECHANISM_PLUS.as_bytes() => Channel::Bound(certificate),
        (mechanism, Some(_)) if mechanism == MECHANISM.as_bytes() => Channel::Unbound,
        (mechanism, None) if mechanism == MECHANISM.as_bytes() => Channel::Unknown,
        _ => return Err(Failure::fatal("08P01", "the client selected a SASL mechanism that was not offered")),
    };
    let (exchange, challenge) = Exchange::begin(verifier, first, channel)?;
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

//! Who sends a request: clients share the models fairly.

use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::LazyLock,
};

use axum::{
    extract::FromRequestParts,
    http::{Extensions, request::Parts},
};
use wisp_engine::pipelines::ClientId;

use super::{request_facts::RequestFacts, request_log::RequestId};

/// The address that a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddress(pub IpAddr);

/// A request apart from its content.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The id of the request.
    pub id: RequestId,
    /// Who sent it.
    pub client: ClientId,
    /// What is known of it at its end.
    pub facts: RequestFacts,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Infallible> {
        fn get<T: Clone + Default + Send + Sync + 'static>(extensions: &Extensions) -> T {
            extensions.get::<T>().cloned().unwrap_or_default()
        }
        Ok(Caller {
            id: get(&parts.extensions),
            client: get(&parts.extensions),
            facts: get(&parts.extensions),
        })
    }
}

/// Makes ids of addresses: at random, so that nobody can look for an address with another one's id.
static IDS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The leading bits of an IPv6 address that say whose it is.
const PREFIX: u128 = !0 << 64;

/// Returns the client of a request: the one with the key of this number or, without keys, the one at its address.
pub fn of(key: Option<u32>, extensions: &Extensions) -> ClientId {
    match (key, extensions.get()) {
        (Some(key), _) => ClientId(key.into()),
        (None, Some(RemoteAddress(address))) => of_address(*address),
        (None, None) => ClientId::default(),
    }
}

/// Returns the client at an address. One of IPv6 has a whole network of 64 bits.
fn of_address(address: IpAddr) -> ClientId {
    let owner = match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & PREFIX)),
        address => address,
    };
    ClientId(IDS.hash_one(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_keys_or_addresses() {
        let of = |key: Option<u32>, address: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(RemoteAddress(address.parse().unwrap()));
            super::of(key, &extensions)
        };
        assert_eq!(of(Some(1), "192.0.2.1"), of(Some(1), "192.0.2.2"));
        assert_ne!(of(Some(1), "192.0.2.1"), of(Some(2), "192.0.2.1"));
        assert_eq!(of(None, "192.0.2.1"), of(None, "::ffff:192.0.2.1"));
        assert_ne!(of(None, "192.0.2.1"), of(None, "192.0.2.2"));
        assert_eq!(of(None, "2001:db8::1"), of(None, "2001:db8::2:1"));
        assert_ne!(of(None, "2001:db8::1"), of(None, "2001:db8:0:1::1"));
        assert_eq!(super::of(None, &Extensions::new()), ClientId::default());
    }
}

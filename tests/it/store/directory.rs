//! Tokens, agent versions and channels.

use approver::store::{
    ChannelMoved, Created, MoveChannel, NewToken, PutVersion, Token, TokenKind, VersionPut,
};

use super::world::{AGENT, ORGANISATION, World, at};

fn token(id: &str, name: &str, kind: TokenKind, hash: u8) -> NewToken {
    let token = Token {
        id: id.to_owned(),
        organisation: ORGANISATION.to_owned(),
        name: name.to_owned(),
        kind,
        created_at: at(u64::from(hash)),
        revoked_at: None,
    };
    NewToken { token, hash: [hash; 32] }
}

pub(super) async fn tokens_are_found_by_hash_until_revoked(world: World) {
    let kinds = [
        TokenKind::Gateway { decide: false },
        TokenKind::Gateway { decide: true },
        TokenKind::Instance { instance: "i1".to_owned() },
        TokenKind::Provisioner {
            versions: vec![("erp".to_owned(), "7".to_owned()), ("\"".to_owned(), "[".to_owned())],
        },
        TokenKind::Operator,
        TokenKind::PolicyOwner,
        TokenKind::Admin,
    ];
    let mut all = Vec::new();
    for (hash, kind) in (0..).zip(kinds) {
        let new = token(&format!("t{hash}"), &format!("name {hash}"), kind, hash);
        assert_eq!(world.store.create_token(new.clone()).await.unwrap(), Created::Done);
        let found = world.store.token_by_hash(new.hash).await.unwrap();
        assert_eq!(found.as_ref(), Some(&new.token));
        all.push(new.token);
    }
    assert_eq!(world.store.tokens(ORGANISATION).await.unwrap(), all);
    assert!(world.store.tokens("another").await.unwrap().is_empty());
    assert_eq!(world.store.token_by_hash([99; 32]).await.unwrap(), None);
    // Neither an id, nor a hash, nor a working name of a kind comes twice.
    let operator = TokenKind::Operator;
    let taken = [
        token("t4", "another", operator.clone(), 50),
        token("t50", "another", operator.clone(), 4),
        token("t50", "name 4", operator.clone(), 50),
    ];
    for new in taken {
        assert_eq!(world.store.create_token(new).await.unwrap(), Created::Exists);
    }
    let revoke = async |organisation: &str, id: &str| {
        world.store.revoke_token(organisation, id, at(60)).await.unwrap()
    };
    assert!(!revoke("another", "t4").await);
    assert!(revoke(ORGANISATION, "t4").await);
    assert!(!revoke(ORGANISATION, "t4").await);
    assert_eq!(world.store.token_by_hash([4; 32]).await.unwrap(), None);
    let tokens = world.store.tokens(ORGANISATION).await.unwrap();
    assert_eq!(tokens[4].revoked_at, Some(at(60)));
    // A revoked token's name is free again; its hash never is.
    let again = token("t51", "name 4", operator.clone(), 51);
    assert_eq!(world.store.create_token(again).await.unwrap(), Created::Done);
    let same_hash = token("t52", "name 52", operator, 4);
    assert_eq!(world.store.create_token(same_hash).await.unwrap(), Created::Exists);
}

fn version(name: &str, content: &str) -> PutVersion {
    PutVersion {
        organisation: ORGANISATION.to_owned(),
        agent: AGENT.to_owned(),
        version: name.to_owned(),
        content: content.to_owned(),
        digest: format!("digest of {content}"),
        by: "owner".to_owned(),
        now: at(7),
    }
}

fn channel(name: &str, version: &str) -> MoveChannel {
    MoveChannel {
        organisation: ORGANISATION.to_owned(),
        agent: AGENT.to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        by: "owner".to_owned(),
        now: at(8),
    }
}

pub(super) async fn a_version_never_changes(world: World) {
    let put = async |version: PutVersion| world.store.put_version(version).await.unwrap();
    assert_eq!(put(version("7", "{}")).await, VersionPut::Done);
    assert_eq!(put(version("7", "{}")).await, VersionPut::Same);
    assert_eq!(put(version("7", "{\"tools\":[]}")).await, VersionPut::Exists);
    let found = world.store.version(ORGANISATION, AGENT, "7").await.unwrap().unwrap();
    assert_eq!((found.content.as_str(), found.version.as_str()), ("{}", "7"));
    assert_eq!((found.by.as_str(), found.created_at), ("owner", at(7)));
    assert_eq!(world.store.version(ORGANISATION, AGENT, "8").await.unwrap(), None);
    assert_eq!(world.store.version("another", AGENT, "7").await.unwrap(), None);
    assert_eq!(world.store.version(ORGANISATION, "another", "7").await.unwrap(), None);
    let mut elsewhere = version("7", "[]");
    elsewhere.organisation = "another".to_owned();
    assert_eq!(put(elsewhere).await, VersionPut::Done);
    assert_eq!(put(version("8", "{}")).await, VersionPut::Done);
    let versions = world.store.versions(ORGANISATION, AGENT).await.unwrap();
    let names: Vec<_> = versions.iter().map(|version| version.version.as_str()).collect();
    assert_eq!(names, ["7", "8"]);
}

pub(super) async fn a_channel_follows_a_version(world: World) {
    let put = async |version: PutVersion| world.store.put_version(version).await.unwrap();
    let moved = async |channel: MoveChannel| world.store.move_channel(channel).await.unwrap();
    assert_eq!(moved(channel("production", "7")).await, ChannelMoved::VersionNotFound);
    put(version("7", "{}")).await;
    put(version("8", "[]")).await;
    assert_eq!(moved(channel("production", "7")).await, ChannelMoved::Done);
    let follow = async || {
        let found = world.store.version(ORGANISATION, AGENT, "production").await.unwrap();
        found.map(|version| version.version)
    };
    assert_eq!(follow().await.as_deref(), Some("7"));
    assert_eq!(moved(channel("production", "8")).await, ChannelMoved::Done);
    assert_eq!(follow().await.as_deref(), Some("8"));
    // A channel is no version, and the other way round.
    assert_eq!(moved(channel("beta", "production")).await, ChannelMoved::VersionNotFound);
    assert_eq!(moved(channel("7", "8")).await, ChannelMoved::NameIsVersion);
    assert_eq!(put(version("production", "{}")).await, VersionPut::NameIsChannel);
    let channels = world.store.channels(ORGANISATION, AGENT).await.unwrap();
    let known: Vec<_> = channels
        .iter()
        .map(|channel| (channel.name.as_str(), channel.version.as_str(), channel.moved_at))
        .collect();
    assert_eq!(known, [("production", "8", at(8))]);
    let mut foreign = channel("production", "8");
    foreign.organisation = "another".to_owned();
    assert_eq!(moved(foreign).await, ChannelMoved::VersionNotFound);
}

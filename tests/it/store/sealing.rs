//! What is sealed under which key.

use approver::store::{
    Delivery, KeyUse, NewCallOutcome, PersonVerdict, Reseal, Sealed, SealedOtherwise,
};

use super::instances::{provisioned, receiver};
use super::world::{ORGANISATION, World, at};

fn under(key: &str) -> Option<Delivery> {
    let secret = Sealed { key_id: key.to_owned(), ciphertext: vec![7, 8] };
    Some(Delivery { secret, ..receiver("https://agent.example/hook") })
}

fn used(key: &str, pending: u64, signing_secrets: u64) -> KeyUse {
    KeyUse { key_id: key.to_owned(), pending, signing_secrets }
}

pub(super) async fn keys_are_in_use_for_what_waits_and_for_secrets(world: World) {
    assert_eq!(world.store.keys_in_use().await.unwrap(), []);
    let judged = world.judge(world.request("k", &["a", "b", "c", "d"])).await;
    let sealed = |call: &str, key: &str| {
        let mut outcome = world.pending(&judged, call, &format!("ap-{call}"));
        if let NewCallOutcome::Approval(approval) = &mut outcome.outcome {
            approval.input.key_id = key.to_owned();
        }
        outcome
    };
    let approved = world.approved(&judged, "d", "ap-d");
    let calls = vec![sealed("a", "old"), sealed("b", "old"), sealed("c", "new"), approved];
    world.record(&judged, calls).await;
    provisioned(&world, "i1", under("old")).await;
    provisioned(&world, "i2", under("older")).await;
    provisioned(&world, "i3", None).await;
    let in_use = world.store.keys_in_use().await.unwrap();
    assert_eq!(in_use, [used("new", 1, 0), used("old", 2, 1), used("older", 0, 1)]);

    // What ended needs its key no more, nor does what was deleted.
    world.decided(world.decision("ap-a", PersonVerdict::Reject)).await;
    world.store.delete_instance(ORGANISATION, "i2", at(1)).await.unwrap();
    assert_eq!(world.store.keys_in_use().await.unwrap(), [used("new", 1, 0), used("old", 1, 1)]);
}

pub(super) async fn a_secret_is_sealed_anew_unless_it_changed_meanwhile(world: World) {
    for (instance, key) in [("i1", "old"), ("i2", "new"), ("i3", "old"), ("i4", "old")] {
        provisioned(&world, instance, under(key)).await;
    }
    let page = async |after: Option<&str>| {
        let after = after.map(str::to_owned);
        let otherwise = SealedOtherwise { key_id: "new".to_owned(), after, limit: 2 };
        let secrets = world.store.sealed_otherwise(otherwise).await.unwrap();
        secrets.into_iter().map(|secret| (secret.instance.clone(), secret)).unzip()
    };
    let (ids, secrets): (Vec<_>, Vec<_>) = page(None).await;
    assert_eq!(ids, ["i1", "i3"]);
    let (ids, _): (Vec<_>, Vec<_>) = page(Some("i3")).await;
    assert_eq!(ids, ["i4"]);
    assert_eq!(secrets[0].sealed, under("old").unwrap().secret);
    assert_eq!(secrets[0].organisation, ORGANISATION);

    let before = world.store.instance(ORGANISATION, "i1").await.unwrap().unwrap();
    let sealed = Sealed { key_id: "new".to_owned(), ciphertext: vec![9] };
    let reseal = |sealed: &Sealed| Reseal { before: secrets[0].clone(), sealed: sealed.clone() };
    assert!(world.store.reseal(reseal(&sealed)).await.unwrap());
    let after = world.store.instance(ORGANISATION, "i1").await.unwrap().unwrap();
    assert_eq!(after.delivery.as_ref().unwrap().secret, sealed);
    // Nothing else changed.
    let delivery = Some(Delivery { secret: sealed, ..before.delivery.clone().unwrap() });
    assert_eq!(after, approver::store::Instance { delivery, ..before });

    // Whoever read the same secret comes too late, and so does whoever reads a deleted one.
    let late = Sealed { key_id: "third".to_owned(), ciphertext: vec![1] };
    assert!(!world.store.reseal(reseal(&late)).await.unwrap());
    world.store.delete_instance(ORGANISATION, "i3", at(1)).await.unwrap();
    let deleted = Reseal { before: secrets[1].clone(), sealed: late.clone() };
    assert!(!world.store.reseal(deleted).await.unwrap());
    let again = world.store.instance(ORGANISATION, "i1").await.unwrap().unwrap();
    assert_ne!(again.delivery.unwrap().secret, late);
}

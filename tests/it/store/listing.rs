//! Lists of approvals.

use approver::store::{Listing, NewCallOutcome, PersonVerdict, Position, Status};

use super::world::{CONVERSATION, ORGANISATION, SURFACE, TURN, World, at};

pub(super) async fn approvals_come_newest_first_page_by_page(world: World) {
    // Two at every second, so that the order needs the ids too; every third is another agent's.
    for index in 0..12_u64 {
        let key = format!("k{index}");
        let judged = world.judge(world.request(&key, &[&key])).await;
        let mut outcome = world.pending(&judged, &key, &format!("a{index:02}"));
        if let NewCallOutcome::Approval(approval) = &mut outcome.outcome {
            approval.facts.created_at = at(index / 2);
            if index % 3 == 2 {
                approval.facts.agent = "another".to_owned();
            }
        }
        world.record(&judged, vec![outcome]).await;
    }
    world.decided(world.decision("a04", PersonVerdict::Reject)).await;
    let list = async |organisation: &str, listing: Listing| {
        let approvals = world.store.approvals(organisation, listing).await.unwrap();
        approvals
            .into_iter()
            .map(|approval| (approval.facts.id, approval.facts.created_at))
            .collect::<Vec<_>>()
    };
    let pages = async |agent: Option<&str>, status: Option<Status>| {
        let agent = agent.map(str::to_owned);
        let mut listing = Listing { agent, status, after: None, limit: 2 };
        let mut all = Vec::new();
        loop {
            let page = list(ORGANISATION, listing.clone()).await;
            assert!(page.len() <= 2);
            let Some((id, created_at)) = page.last().cloned() else { return all };
            listing.after = Some(Position { created_at, id });
            all.extend(page.into_iter().map(|(id, _)| id));
        }
    };
    let everything: Vec<String> = (0..12).rev().map(|index| format!("a{index:02}")).collect();
    assert_eq!(pages(None, None).await, everything);
    assert_eq!(pages(Some("another"), None).await, ["a11", "a08", "a05", "a02"]);
    let erp = ["a10", "a09", "a07", "a06", "a03", "a01", "a00"];
    assert_eq!(pages(Some("erp"), Some(Status::Pending)).await, erp);
    assert_eq!(pages(Some("erp"), Some(Status::Rejected)).await, ["a04"]);
    assert_eq!(pages(None, Some(Status::Rejected)).await, ["a04"]);
    assert_eq!(pages(None, Some(Status::Pending)).await.len(), 11);
    assert!(pages(None, Some(Status::Expired)).await.is_empty());
    let listing = Listing { limit: 100, ..Listing::default() };
    assert!(list("another", listing).await.is_empty());
}

pub(super) async fn a_turn_lists_its_own_approvals(world: World) {
    world.raise("k1", &["c2", "c1"]).await;
    let mut elsewhere = world.request("k2", &["c3"]);
    elsewhere.turn = "turn-2".to_owned();
    world.raise_in(elsewhere).await;
    let list = async |organisation: &str, turn: &str| {
        let (surface, conversation) = (SURFACE, CONVERSATION);
        let found =
            world.store.approvals_of_turn(organisation, surface, conversation, turn).await.unwrap();
        found.into_iter().map(|approval| approval.facts.id).collect::<Vec<_>>()
    };
    assert_eq!(list(ORGANISATION, TURN).await, ["ap-c1", "ap-c2"]);
    assert_eq!(list(ORGANISATION, "turn-2").await, ["ap-c3"]);
    assert!(list("another", TURN).await.is_empty());
}

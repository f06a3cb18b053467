//! The switch of automatic approval.

use approver::decide::verdict::JudgeFailure;
use approver::store::TokenKind;
use serde_json::{Value, json};

use super::on_both_stores;
use super::world::World;

const PATH: &str = "/v1/automatic-approval";

async fn an_admin_switches_it_for_all_or_for_one_agent(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let owner = world.token("owner", TokenKind::PolicyOwner).await;
    let untouched = world.get(PATH, &admin).await.expect(200);
    let expected = json!({
        "enabled": true, "changed_by": null, "changed_at": null,
        "available": true, "reason": null, "agents": [],
    });
    assert_eq!(untouched, expected);

    // A slip in an agent's name must not pass for a switch.
    let erp = json!({"enabled": false, "agent": "erp"});
    assert_eq!(world.put(PATH, &admin, &erp).await.error(404), "not_found");
    world.put("/v1/agents/erp/versions/7", &owner, &json!({})).await.expect(201);
    let switched = world.put(PATH, &admin, &erp).await.expect(200);
    assert_eq!(switched["available"], true);
    let of_agent = &switched["agents"][0];
    assert_eq!((&of_agent["agent"], &of_agent["enabled"]), (&json!("erp"), &json!(false)));
    assert_eq!(of_agent["reason"], "switched_off");
    assert_eq!(of_agent["changed_by"], "root");

    let off = world.put(PATH, &admin, &json!({"enabled": false})).await.expect(200);
    assert_eq!((&off["enabled"], &off["available"]), (&json!(false), &json!(false)));
    assert_eq!(off["reason"], "switched_off");
    // An agent needs both to be on.
    let on = world.put(PATH, &admin, &json!({"enabled": true, "agent": "erp"})).await.expect(200);
    assert_eq!(on["agents"][0]["available"], false);
    let on = world.put(PATH, &admin, &json!({"enabled": true})).await.expect(200);
    assert_eq!((&on["available"], &on["agents"][0]["available"]), (&json!(true), &json!(true)));
    assert_eq!(world.get(PATH, &admin).await.expect(200), on);
}

/// Where several things keep it off, a person's switch is named: it is what a person can move, and
/// nobody looks for a judge that would not be asked.
async fn a_switch_is_the_reason_before_a_missing_judge(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let world =
        world.with_parts(|parts| parts.automatic_approval = Err(JudgeFailure::NotConfigured)).await;
    let answer = world.get(PATH, &admin).await.expect(200);
    assert_eq!((&answer["enabled"], &answer["reason"]), (&json!(true), &json!("not_configured")));
    let answer = world.put(PATH, &admin, &json!({"enabled": false})).await.expect(200);
    assert_eq!((&answer["enabled"], &answer["reason"]), (&json!(false), &json!("switched_off")));
    assert_eq!(world.get(PATH, &admin).await.expect(200), answer);
}

async fn it_is_an_admins_and_the_organisations_own(world: World) {
    let admin = world.token("root", TokenKind::Admin).await;
    let stranger = world.token_of("oak", "root", TokenKind::Admin).await;
    let off = json!({"enabled": false});
    for kind in [TokenKind::Gateway { decide: true }, TokenKind::Operator, TokenKind::PolicyOwner] {
        let token = world.token("other", kind).await;
        assert_eq!(world.put(PATH, &token, &off).await.error(403), "forbidden");
        assert_eq!(world.get(PATH, &token).await.error(403), "forbidden");
    }
    world.put(PATH, &stranger, &off).await.expect(200);
    assert_eq!(world.get(PATH, &admin).await.expect(200)["available"], true);
    for (body, param) in [
        (json!({}), "$.enabled"),
        (json!({"enabled": "no"}), "$.enabled"),
        (json!({"enabled": false, "agents": []}), "$.agents"),
        (json!({"enabled": false, "agent": Value::Null}), "$.agent"),
    ] {
        let reply = world.put(PATH, &admin, &body).await;
        assert_eq!(reply.json["error"]["param"], param, "{}", reply.text);
        assert_eq!(reply.error(400), "invalid_request");
    }
    assert_eq!(world.get(PATH, &admin).await.expect(200)["enabled"], true);
}

on_both_stores!(
    an_admin_switches_it_for_all_or_for_one_agent,
    a_switch_is_the_reason_before_a_missing_judge,
    it_is_an_admins_and_the_organisations_own,
);

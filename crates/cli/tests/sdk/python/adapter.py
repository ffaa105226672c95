"""Makes the calls it is told to, each with one real SDK that is used unchanged.

Usage: adapter.py SDK. Each line on stdin is a JSON object with `id`, `url`, `key` (or null, for
the SDK's own), `name`, `retries` and `timeout` (seconds, or null). Each line on stdout answers
one: `made` with what was created, or `error` with what was raised. Calls run side by side.
"""

import json
import sys
import threading


def stripe(call):
    from stripe import RequestsClient, StripeClient

    client = StripeClient(
        "sk_test_1",
        base_addresses={"api": call["url"]},
        max_network_retries=3 if call["retries"] else 0,
        http_client=RequestsClient(timeout=call["timeout"] or 80),
    )
    options = {"idempotency_key": call["key"]} if call["key"] else {}
    return client.v1.customers.create({"name": call["name"]}, options).id


def openai(call):
    from openai import OpenAI

    client = OpenAI(api_key="sk-1", base_url=call["url"] + "/v1", **stainless(call))
    # This one makes keys for itself but sends none, unless it is told to.
    headers = {"Idempotency-Key": call["key"]} if call["key"] else {}
    return client.conversations.create(metadata={"name": call["name"]}, extra_headers=headers).id


def increase(call):
    from increase import Increase

    client = Increase(api_key="key-1", base_url=call["url"], **stainless(call))
    return client.accounts.create(name=call["name"], idempotency_key=call["key"]).id


def modern_treasury(call):
    from modern_treasury import ModernTreasury

    who = {"api_key": "key-1", "organization_id": "org-1"}
    client = ModernTreasury(base_url=call["url"], **who, **stainless(call))
    return client.counterparties.create(name=call["name"], idempotency_key=call["key"]).id


def stainless(call):
    return {
        "max_retries": 2 if call["retries"] else 0,
        **({"timeout": call["timeout"]} if call["timeout"] else {}),
    }


def svix(call):
    from svix.api import ApplicationIn, Svix, SvixOptions
    from svix.api.application import ApplicationCreateOptions

    options = SvixOptions(server_url=call["url"])
    if not call["retries"]:
        options.retry_schedule = []
    if call["timeout"]:
        options.timeout = call["timeout"]
    key = ApplicationCreateOptions(idempotency_key=call["key"])
    return Svix("testsk_1.eu", options).application.create(ApplicationIn(name=call["name"]), key).id


def square(call):
    from square import Square

    client = Square(token="token-1", base_url=call["url"], timeout=call["timeout"])
    options = {} if call["retries"] else {"max_retries": 0}
    made = client.customers.create(
        idempotency_key=call["key"], given_name=call["name"], request_options=options
    )
    return made.customer.id


def workos(call):
    from workos import WorkOSClient

    client = WorkOSClient(api_key="sk_1", client_id="client_1", base_url=call["url"] + "/")
    options = {} if call["retries"] else {"max_retries": 0}
    if call["key"]:
        options["idempotency_key"] = call["key"]
    if call["timeout"]:
        options["timeout"] = call["timeout"]
    made = client.organizations.create_organization(name=call["name"], request_options=options)
    return made.id


def gocardless_pro(call):
    from gocardless_pro import Client

    client = Client(access_token="token-1", base_url=call["url"], timeout=call["timeout"] or 60)
    customers = client.customers
    if not call["retries"]:
        customers.max_network_retries = 1
    headers = {"Idempotency-Key": call["key"]} if call["key"] else None
    return customers.create(params={"given_name": call["name"]}, headers=headers).id


def azure(call):
    from azure.communication.rooms import RoomsClient
    from azure.core.credentials import AzureKeyCredential

    options = {}
    if not call["retries"]:
        options["retry_total"] = 0
    if call["timeout"]:
        options["read_timeout"] = call["timeout"]
    client = RoomsClient(call["url"], AzureKeyCredential("a2V5LTE="), **options)

    def name_key(request):
        if call["key"]:
            request.http_request.headers["Repeatability-Request-ID"] = call["key"]

    dials_out = call["name"] == "other"
    return client.create_room(pstn_dial_out_enabled=dials_out, raw_request_hook=name_key).id


def boto3(call):
    import boto3
    from botocore.config import Config

    retries = {"total_max_attempts": 3 if call["retries"] else 1}
    client = boto3.session.Session().client(
        "ec2",
        region_name="eu-west-1",
        endpoint_url=call["url"],
        aws_access_key_id="id-1",
        aws_secret_access_key="secret-1",
        config=Config(retries=retries, read_timeout=call["timeout"] or 60),
    )
    key = {"ClientToken": call["key"]} if call["key"] else {}
    made = client.run_instances(ImageId=call["name"], MinCount=1, MaxCount=1, **key)
    return made["ReservationId"]


SDKS = {
    "stripe": (stripe, ["stripe"]),
    "openai": (openai, ["openai"]),
    "increase": (increase, ["increase"]),
    "modern-treasury": (modern_treasury, ["modern_treasury"]),
    "svix": (svix, ["svix"]),
    "square": (square, ["square"]),
    "workos": (workos, ["workos"]),
    "gocardless": (gocardless_pro, ["gocardless_pro"]),
    "azure": (azure, ["azure"]),
    "boto3": (boto3, ["boto3", "botocore"]),
}


def told(error, packages):
    """What a program that catches `error` can tell from it."""
    text = [str(error)]
    for name in ("body", "additional_properties", "response"):
        if isinstance(member := getattr(error, name, None), (dict, str)):
            text.append(json.dumps(member, default=str))
    return {
        "class": type(error).__name__,
        "own": type(error).__module__.split(".")[0] in packages,
        "message": "\n".join(text),
    }


def answer(call, create, packages, lock):
    try:
        said = {"id": call["id"], "made": create(call)}
    except Exception as error:
        said = {"id": call["id"], "error": told(error, packages)}
    with lock:
        print(json.dumps(said), flush=True)


def main():
    create, packages = SDKS[sys.argv[1]]
    lock = threading.Lock()
    for line in sys.stdin:
        arguments = (json.loads(line), create, packages, lock)
        threading.Thread(target=answer, args=arguments, daemon=True).start()


main()

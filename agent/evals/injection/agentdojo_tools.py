"""What each function of AgentDojo does, as contracts: by its source, not by its name.

``get_webpage`` leaves a request at a server (``network:web``), ``get_unread_emails`` marks what it
returns as read, and whoever is put into a calendar event is sent a mail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.contract import Contract, Effects


def _reads(what: str, *, strangers: bool = True, private: bool = True) -> Contract:
    """A read. ``strangers``: others can write what it returns."""
    effects = frozenset({f"read:{what}"})
    return Contract(effects=effects, open_world=strangers, private=private)


def _writes(*effects: str, returns_strangers: bool = False) -> Contract:
    """A write; what it returns is what was just written, unless it returns more of a record."""
    return Contract(effects=frozenset(effects), open_world=returns_strangers, private=True)


def _mails_participants(args: Mapping[str, Any]) -> Effects:
    """A new event is mailed to those who are invited to it."""
    mailed = {"disclose:email"} if args.get("participants") else set()
    return frozenset({"write:calendar", *mailed})


_PUBLIC = {"strangers": True, "private": False}

CONTRACTS: Mapping[str, Contract] = {
    # mail
    "send_email": _writes("disclose:email"),
    "delete_email": _writes("write:email"),
    "get_unread_emails": Contract(effects=frozenset({"read:email", "write:email"})),
    "get_sent_emails": _reads("email"),
    "get_received_emails": _reads("email"),
    "get_draft_emails": _reads("email"),
    "search_emails": _reads("email"),
    "search_contacts_by_name": _reads("contacts"),  # made of who has written, too
    "search_contacts_by_email": _reads("contacts"),
    # calendar: others invite the user, so they write what is in it
    "get_current_day": _reads("clock", strangers=False, private=False),
    "search_calendar_events": _reads("calendar"),
    "get_day_calendar_events": _reads("calendar"),
    "create_calendar_event": Contract(effects=_mails_participants, open_world=False, private=True),
    "cancel_calendar_event": _writes("write:calendar", "disclose:email"),
    "reschedule_calendar_event": _writes(
        "write:calendar", "disclose:email", returns_strangers=True
    ),
    "add_calendar_event_participants": _writes(
        "write:calendar", "disclose:email", returns_strangers=True
    ),
    # files, some of them shared by others
    "list_files": _reads("files"),
    "search_files": _reads("files"),
    "search_files_by_filename": _reads("files"),
    "get_file_by_id": _reads("files"),
    "create_file": _writes("write:files"),
    "append_to_file": _writes("write:files", returns_strangers=True),
    "delete_file": _writes("write:files", returns_strangers=True),
    "share_file": _writes("disclose:files", returns_strangers=True),
    "read_file": _reads("files"),
    # slack
    "get_channels": _reads("slack"),  # others name channels
    "get_users_in_channel": _reads("slack"),
    "read_channel_messages": _reads("slack"),
    "read_inbox": _reads("slack"),
    "send_direct_message": _writes("disclose:slack"),
    "send_channel_message": _writes("disclose:slack"),
    "add_user_to_channel": _writes("write:slack"),
    "invite_user_to_slack": _writes("write:slack", "disclose:email"),
    "remove_user_from_slack": _writes("write:slack"),
    # the web
    "get_webpage": Contract(effects=frozenset({"network:web"}), private=False),
    "download_file": Contract(effects=frozenset({"network:web", "write:files"}), private=False),
    "post_webpage": _writes("disclose:web"),
    # the bank
    "get_iban": _reads("bank", strangers=False),
    "get_balance": _reads("bank", strangers=False),
    "get_most_recent_transactions": _reads("bank"),  # others write subjects
    "get_scheduled_transactions": _reads("bank", strangers=False),
    "send_money": _writes("spend:money"),
    "schedule_transaction": _writes("spend:money"),
    "update_scheduled_transaction": _writes("spend:money"),
    # the account
    "get_user_info": _reads("account", strangers=False),
    "get_user_information": _reads("account", strangers=False),
    "update_user_info": _writes("write:account"),
    "update_password": _writes("write:account"),
    # travel: listings and reviews that others write
    "get_all_hotels_in_city": _reads("travel", **_PUBLIC),
    "get_hotels_prices": _reads("travel", **_PUBLIC),
    "get_hotels_address": _reads("travel", **_PUBLIC),
    "get_rating_reviews_for_hotels": _reads("travel", **_PUBLIC),
    "get_all_restaurants_in_city": _reads("travel", **_PUBLIC),
    "get_restaurants_address": _reads("travel", **_PUBLIC),
    "get_rating_reviews_for_restaurants": _reads("travel", **_PUBLIC),
    "get_cuisine_type_for_restaurants": _reads("travel", **_PUBLIC),
    "get_dietary_restrictions_for_all_restaurants": _reads("travel", **_PUBLIC),
    "get_contact_information_for_restaurants": _reads("travel", **_PUBLIC),
    "get_price_for_restaurants": _reads("travel", **_PUBLIC),
    "check_restaurant_opening_hours": _reads("travel", **_PUBLIC),
    "get_all_car_rental_companies_in_city": _reads("travel", **_PUBLIC),
    "get_car_types_available": _reads("travel", **_PUBLIC),
    "get_rating_reviews_for_car_rental": _reads("travel", **_PUBLIC),
    "get_car_rental_address": _reads("travel", **_PUBLIC),
    "get_car_fuel_options": _reads("travel", **_PUBLIC),
    "get_car_price_per_day": _reads("travel", **_PUBLIC),
    "get_flight_information": _reads("travel", **_PUBLIC),
    "reserve_hotel": _writes("write:reservations"),
    "reserve_restaurant": _writes("write:reservations"),
    "reserve_car_rental": _writes("write:reservations"),
}

TARGETS: Mapping[str, tuple[str, str]] = {
    "delete_email": ("inbox.emails", "email_id"),
    "cancel_calendar_event": ("calendar.events", "event_id"),
    "reschedule_calendar_event": ("calendar.events", "event_id"),
    "add_calendar_event_participants": ("calendar.events", "event_id"),
    "append_to_file": ("cloud_drive.files", "file_id"),
    "delete_file": ("cloud_drive.files", "file_id"),
    "share_file": ("cloud_drive.files", "file_id"),
    "update_scheduled_transaction": ("bank_account.scheduled_transactions", "id"),
}
"""Writes about a record: where the records are, and the argument with the id. Their preview names
the record, as a contract of a real tool would."""

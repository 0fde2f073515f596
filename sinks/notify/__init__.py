"""Notification targets: Alertmanager, PagerDuty, Slack, webhooks and apprise."""

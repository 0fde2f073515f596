"""The local page: incidents, jobs and silences for a browser on this machine, updated live."""

from epicenter.sinks.page.live import Feed as Feed
from epicenter.sinks.page.live import Watcher as Watcher
from epicenter.sinks.page.server import page as page
from epicenter.sinks.page.story import incident_html as incident_html
from epicenter.sinks.page.story import incidents_html as incidents_html

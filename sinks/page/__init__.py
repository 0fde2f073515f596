"""The local page: incidents, jobs and silences for a browser on this machine, kept up to date while it is open."""

from sinks.page.live import Feed as Feed
from sinks.page.live import Watcher as Watcher
from sinks.page.server import page as page
from sinks.page.story import incident_html as incident_html
from sinks.page.story import incidents_html as incidents_html

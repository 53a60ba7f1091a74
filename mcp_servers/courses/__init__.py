"""Courses: a small course-management service over HTTP, and an MCP server over that service.

Two processes that share one document, ``openapi.json``:

* ``python -m mcp_servers.courses.lms`` is the service: assignments, submissions, grades.
* ``python -m mcp_servers.courses`` is the MCP server. Its tools are generated from the document.

::

    MCP host ── AGENT_TOKEN ──► MCP server ── LMS_TOKEN ──► service ── gradebook
              (inbound, HTTP)               (outbound)

The two tokens never meet. ``mcp_servers.inbound`` alone knows the first and hands on no more than
scopes; ``upstream`` alone knows the second and builds every request from the document and the
arguments, so nothing of the inbound request (headers, cookies, token) can travel on.

| module | holds |
| --- | --- |
| ``document`` | the document's operations: schemas, errors, hints |
| ``gradebook`` | the records: SQLite, revisions, idempotency keys |
| ``service`` | the service: the document's routes over a gradebook |
| ``lms`` | its command line |
| ``upstream`` | requests to the service; its errors, in our words |
| ``generated`` | an operation as an MCP tool |
"""

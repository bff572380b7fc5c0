"""The judge as an MCP server: other coding agents check, profile and sweep with the same tools as Warpsmith's own agent.

Every task that a client opens is a session: what was judged is kept, and the developer looks at it, accepts hunks and
lands them with ``warpsmith sessions resume``. Only ``agent.mcp.server`` imports the SDK.
"""
